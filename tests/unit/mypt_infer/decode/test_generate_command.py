"""The command mypt-generate: its prompts, its outputs, its limits, and what it refuses."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt.generate import Screen, main
from mypt_infer.decode.decoder import Decoder
from mypt_infer.generate.opened import read_prompt
from tests.support.build import Record, assistant, call, calls, chat, function, tool, user
from tests.support.decoding import DIALECTS, TOOLS, complete, decoder, prompt

RECORD = chat(user(), system="You are MyPT.")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with random weights."""
    pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    from mypt_infer.generate.llama import LlamaConfig
    from tests.support.tiny_models import random_model

    out = tmp_path_factory.mktemp("model")
    shape = {"vocab_size": 50304, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "tie_word_embeddings": True}  # fmt: skip
    (out / "config.json").write_text(json.dumps(shape))
    model = random_model(LlamaConfig(**shape, num_key_value_heads=2), scale=0.5)
    safetensors.save_file(model.weights, out / "model.safetensors")
    return out


def write(path: Path, content: Any) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


def run(model: Path, prompt: str, *options: str) -> int:
    return main(["--model", str(model), "--prompt", prompt, *options])


@pytest.mark.numeric
def test_the_three_outputs_say_the_same(
    folder: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path, limits = write(tmp_path / "p.json", RECORD), ("--max-new-tokens", "24", "--seed", "3")
    assert run(folder, path, *limits, "--json") == 0
    answer = json.loads(capfdbinary.readouterr().out)
    assert answer["ended"] == "turn"
    assert answer["tokens"] == len(answer["ids"]) <= 24
    assert 0 < answer["lost"] < 1
    d = mypt_spec.dialect("mypt")
    episode, _ = d.read(answer["record"])
    assert episode is not None
    assert d.serialize(episode).endswith(answer["text"])
    assert run(folder, path, *limits, "--raw") == 0
    assert capfdbinary.readouterr().out.decode() == answer["text"]
    assert run(folder, path, *limits) == 0
    shown = capfdbinary.readouterr().out.decode()
    assert shown.startswith("assistant: ")
    assert "<myPT_" not in shown


@pytest.mark.parametrize(
    "text",
    [
        "<myPT_system>S</myPT_system><myPT_user>Hi</myPT_user>",
        "<myPT_system>S</myPT_system>\n<myPT_user>Hi</myPT_user>\n",
        "<myPT_system>S</myPT_system><myPT_user>Hi</myPT_user><myPT_assistant>So",
    ],
)
def test_prompts_as_text(
    folder: Path, text: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run(folder, "-", "--json", "--max-new-tokens", "12", "--seed", "1") == 0
    assert json.loads(capfd.readouterr().out)["ended"] == "turn"


def write_prompt(path: Path, name: str) -> str:
    """Writes the shortest prompt of a dialect, as text."""
    d = mypt_spec.dialect(name)
    return write(path, d.tokenizer.decode(d.encode(prompt(name), partial=True).ids))


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_generates(
    name: str, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, tools = write_prompt(tmp_path / "p", name), write(tmp_path / "tools.json", TOOLS)
    limits = ("--json", "--seed", "0", "--max-new-tokens", "40")
    assert run(folder, path, "--dialect", name, "--tools", tools, *limits) == 0
    ids = json.loads(capfd.readouterr().out)["ids"]
    assert complete(decoder(name), decoder(name).ids_of(prompt(name)) + ids)


def test_tools_that_a_record_declares_may_be_called(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    class Spy(Decoder):
        def __init__(self, dialect: Any, tools: Any, **options: Any) -> None:
            seen.append(tools)
            super().__init__(dialect, tools, **options)

    monkeypatch.setattr("mypt_infer.decode.decoder.Decoder", Spy)
    declared, other = function("declared"), function("other")
    path = write(tmp_path / "p.json", chat(user(), tools=[declared]))
    limits = ("--dialect", "qwen3", "--max-new-tokens", "24")
    assert run(folder, path, *limits) == 0
    assert run(folder, path, *limits, "--tools", write(tmp_path / "t.json", [other])) == 0
    assert seen == [[declared], [other]]


@pytest.mark.parametrize(
    "choice", ["required", "none", {"type": "function", "function": {"name": "g"}}, "g"]
)
def test_the_choice_of_tools_in_a_record_is_kept(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], choice: Any
) -> None:
    record = chat(user(), tools=[function("f"), function("g")]) | {"tool_choice": choice}
    path = write(tmp_path / "p.json", record)
    status = run(
        folder, path, "--dialect", "qwen3", "--max-new-tokens", "40", "--raw", "--seed", "1"
    )
    out = capfd.readouterr()
    if choice == "g":
        assert (status, "expected auto, none, required" in out.err) == (2, True)
        return
    assert status == 0
    assert ("<tool_call>" in out.out) == (choice != "none")
    assert '"f"' not in out.out or choice == "required"


def test_tools_that_cannot_be_read_are_said_in_one_line(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of a list as a server answers it, with one tool that is broken, and one unknown keyword."""
    good = {"type": "object", "properties": {"a": {"type": "string", "optional": True}}}
    bad = {"name": "bad", "inputSchema": {"properties": None}}
    tools = {"tools": [bad, {"name": "good", "inputSchema": good}]}
    path, tools_path = write(tmp_path / "p", RECORD), write(tmp_path / "tools.json", tools)
    options = ("--tools", tools_path, "--max-new-tokens", "12", "--json")
    assert run(folder, path, *options) == 2
    assert capfd.readouterr().err.splitlines() == [
        "mypt-generate: error: tool 'bad' at /properties: expected an object of schemas, got null"
    ]
    assert run(folder, path, *options, "--skip-unreadable") == 0
    first, second = capfd.readouterr().err.splitlines()
    assert "read as nothing in the schemas of tools: optional" in first
    assert "left out: tool 'bad' at /properties" in second


@pytest.mark.parametrize(
    ("content", "options", "says"),
    [
        ("{", [], "not JSON"),
        ('{"messages": []}', [], "MYP"),
        ("Hello", [], "MYP210"),
        (RECORD, ["--dialect", "nope"], "known are"),
        (RECORD, ["--max-new-tokens", "2"], "takes 4 tokens"),
        (RECORD, ["--temperature", "-1"], "temperature"),
        (RECORD, ["--stop", "<myPT_user>"], "can write"),
        (RECORD, ["--device", "nothing"], "--device nothing"),
        (RECORD, ["--tools", "missing.json"], "cannot read missing.json"),
        (RECORD, ["--model", "missing"], "cannot read missing"),
        (chat(user(), assistant(), system="S"), [], "where the model may not write; end it where"),
    ],
)
def test_errors(
    folder: Path,
    tmp_path: Path,
    content: Any,
    options: list[str],
    says: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run(folder, write(tmp_path / "p", content), *options) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("mypt-generate: error: ")
    assert says in err


@pytest.mark.parametrize(
    ("name", "flags", "forbidden_blocks"),
    [
        ("mypt", ["--no-think"], {"think"}),
        ("mypt", [], set()),
        ("usf-omega", ["--no-think"], {"reasoning", "self_reflection"}),
        ("praxis", ["--no-think"], set()),
    ],
)
def test_thoughts_can_be_ruled_out(
    name: str,
    flags: list[str],
    forbidden_blocks: set[str],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from mypt_infer.generate import generate as module

    decoders, generate = list[Any](), module.generate
    monkeypatch.setattr(module, "generate", lambda *a, decoder, **k: decoders.append(decoder) or generate(*a, decoder=decoder, **k))  # type: ignore[func-returns-value]  # fmt: skip
    path, limits = write_prompt(tmp_path / "p", name), ("--max-new-tokens", "20", "--json")
    assert run(folder, path, "--dialect", name, *limits, *flags) == 0
    assert [decoder.forbidden_blocks for decoder in decoders] == [forbidden_blocks]


def test_without_torch_it_says_what_to_install(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert run(Path("x"), write(tmp_path / "p", RECORD)) == 2
    assert "pip install 'mypt-tags[infer]'" in capfd.readouterr().err


def test_help_has_an_example() -> None:
    assert "mypt-generate --model runs/7m --prompt question.json" in main.parser().format_help()


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("mypt", "<myPT_assistant><myPT_think>a<b</myPT_think>ü 🎉</myPT_assistant><myPT_eot>", "assistant: \nthink: a<b\nü 🎉\n"),
        ("praxis", 'See <tin>\n{"name": "t", "arguments": {}}\n</tin>', 'See \ntin: {"name": "t", "arguments": {}}\n'),
        ("praxis", "a <b> < c", "a <b> < c\n"),
        ("mypt-3b", '<assistant>\n<toolcall name="t">\n{}\n</toolcall>\n</assistant>', "assistant: \ntoolcall t: {}\n"),
        ("harmony", "<|channel|>final<|message|>Hi<|return|>", "final: Hi\n"),
        ("mistral-v13", '[TOOL_CALLS]look[ARGS]{"x": 1}</s>', 'call look: {"x": 1}\n'),
    ],
)  # fmt: skip
def test_what_is_shown(
    name: str, text: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever tokens spell it, those of half characters included."""
    d = mypt_spec.dialect(name)
    screen, byte = Screen(d), {d.tokenizer.decode_bytes([i]): i for i in d.tokenizer.ordinary}
    for part in re.split(f"({'|'.join(map(re.escape, d.tokenizer.special))})", text):
        special = d.tokenizer.special.get(part)
        ids = [byte[bytes([b])] for b in part.encode()] if special is None else [special]
        for token in ids:
            screen.token(token)
    screen.end()
    assert capsys.readouterr().out == shown


@pytest.fixture(scope="module")
def short(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model, with 64 positions."""
    out = tmp_path_factory.mktemp("short")
    config = json.loads((folder / "config.json").read_text()) | {"max_position_embeddings": 64}
    (out / "config.json").write_text(json.dumps(config))
    (out / "model.safetensors").symlink_to(folder / "model.safetensors")
    return out


def long_prompt(words: int) -> Record:
    return chat(user("word " * words), system="S")


def test_a_prompt_longer_than_the_model_can_read_is_refused(
    short: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "p.json", long_prompt(100))
    assert run(short, path) == 2
    out, err = capfd.readouterr()
    assert not out
    assert "the prompt has 106 tokens; the model has 64 positions" in err


def test_an_answer_gets_the_positions_that_are_left(
    short: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "p.json", long_prompt(20))
    assert run(short, path, "--json", "--seed", "1") == 0
    out, err = capfd.readouterr()
    assert "at most 38 new tokens: the model has 64 positions, the prompt 26 tokens" in err
    assert json.loads(out)["ended"] == "turn"
    assert json.loads(out)["tokens"] <= 38
    assert run(short, path, "--max-new-tokens", "30", "--json") == 0
    assert "positions" not in capfd.readouterr().err


def test_no_prompt_is_read_beyond_the_last_position() -> None:
    from mypt_infer.generate.generate import generate
    from mypt_infer.generate.llama import LlamaConfig
    from tests.support.tiny_models import random_model

    made = decoder("mypt")
    model = random_model(LlamaConfig(50304, 8, 16, 1, 2, 1, max_position_embeddings=40))
    ids = made.ids_of(prompt("mypt"))
    with pytest.raises(ValueError, match="the model has 40 positions"):
        generate(model, [ids], decoder=made, max_new_tokens=41 - len(ids))
    assert generate(model, [ids], decoder=made, max_new_tokens=40 - len(ids))


def test_an_answer_may_be_bound(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("llguidance")
    path = write(tmp_path / "p.json", RECORD)
    limits = ("--json", "--seed", "1", "--max-new-tokens", "60", "--no-think")
    ok = {"type": "object", "properties": {"ok": {"enum": [True]}}, "required": ["ok"], "additionalProperties": False}  # fmt: skip
    schema, lark = write(tmp_path / "s.json", ok), write(tmp_path / "g.lark", 'start: "A" | "B"')
    for option, answers in (
        (["--response-regex", "^(yes|no)$"], {"yes", "no"}),
        (["--response-schema", schema], {'{"ok": true}'}),
        (["--response-lark", lark], {"A", "B"}),
    ):
        assert run(folder, path, *limits, *option) == 0
        content = json.loads(capsys.readouterr().out)["record"]["messages"][-1]["content"]
        assert re.sub("<myPT_cite>.*?</myPT_cite>", "", content) in answers
    for option, why in (
        (["--response-regex", "a("], "the regex of the response: invalid regex"),
        (["--response-schema", lark], "is not JSON"),
        (["--response-schema", write(tmp_path / "t.json", {"type": "x"})], "'x' is not a type"),
    ):
        assert run(folder, path, *limits, *option) == 2
        assert why in capsys.readouterr().err
    assert run(folder, path, *limits, "--max-new-tokens", "3", "--response-regex", "a{200}") == 2
    assert "max_new_tokens is 3; the shortest legal ending" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["mistral", "mistral-v13", "qwen3", "harmony", "llama3"])
def test_a_prompt_may_end_with_a_result(name: str) -> None:
    """Where results are inside of the answer, it goes on after them."""
    does = function("f")
    does["function"]["description"] = "Does it."
    asked = calls(call("f", "{}", id="abcdefghi"))
    record = chat(user(), asked, tool("20", tool_call_id="abcdefghi", name="f"), tools=[does])
    d = mypt_spec.dialect(name)
    ids, *_ = read_prompt(d, json.dumps(record))
    made = Decoder(d, [does])
    state = made.start(ids, max_new_tokens=20)
    answer = d.tokenizer.encode("Twenty")[0]
    assert made.left(state) == 20
    assert name == "harmony" or made.allowed(state)[answer]


def test_what_is_wrong_with_the_model_is_told_before_the_prompt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.bin"
    file.write_bytes(b"weights")
    for model, says in ((file, "is a file; expected a folder"), (tmp_path / "none", "config.json")):
        assert run(model, write(tmp_path / "prompt.json", "no prompt at all")) == 2
        assert says in capsys.readouterr().err


def test_a_file_of_several_records_is_no_prompt(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = write(tmp_path / "prompts.jsonl", f"{json.dumps(RECORD)}\n{json.dumps(RECORD)}\n")
    assert run(folder, lines) == 2
    assert "more than one JSON value; give one record" in capsys.readouterr().err
