"""mypt-generate, and the decoder in the loop of transformers."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_infer.decode.decoder import Decoder
from mypt_infer.generate.cli import main, read_prompt
from mypt_infer.generate.shown import Shown
from tests.support.decoding import DIALECTS, TOOLS, complete, decoder, prompt

RECORD = {"system": "You are MyPT.", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with random weights."""
    pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    from mypt_infer.generate.llama import LlamaConfig, random_model

    out = tmp_path_factory.mktemp("model")
    shape = {
        "vocab_size": 50304,
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "tie_word_embeddings": True,
    }
    (out / "config.json").write_text(json.dumps(shape))
    safetensors.save_file(
        random_model(LlamaConfig(**shape, num_key_value_heads=2), scale=0.5).weights,
        out / "model.safetensors",
    )
    return out


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.numeric
def test_the_three_outputs_say_the_same(
    folder: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    common = [
        "--model",
        str(folder),
        "--prompt",
        write(tmp_path / "p.json", json.dumps(RECORD)),
        "--max-new-tokens",
        "24",
        "--seed",
        "3",
    ]
    assert main([*common, "--json"]) == 0
    found = json.loads(capfdbinary.readouterr().out)
    assert found["ended"] == "turn"
    assert found["tokens"] == len(found["ids"]) <= 24
    assert 0 < found["lost"] < 1
    d = mypt_spec.dialect("mypt")
    episode, _ = d.read(found["record"])
    assert episode is not None
    assert d.serialize(episode).endswith(found["text"])
    assert main([*common, "--raw"]) == 0
    assert capfdbinary.readouterr().out.decode() == found["text"]
    assert main(common) == 0
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
    assert (
        main(
            [
                "--model",
                str(folder),
                "--prompt",
                "-",
                "--json",
                "--max-new-tokens",
                "12",
                "--seed",
                "1",
            ]
        )
        == 0
    )
    assert json.loads(capfd.readouterr().out)["ended"] == "turn"


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_generates(
    name: str, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content = prompt(name)
    d = mypt_spec.dialect(name)
    path = write(tmp_path / "p", d.tokenizer.decode(d.encode(content, partial=True).ids))
    tools = write(tmp_path / "tools.json", json.dumps(TOOLS))
    assert (
        main(
            [
                "--model",
                str(folder),
                "--prompt",
                path,
                "--dialect",
                name,
                "--tools",
                tools,
                "--json",
                "--seed",
                "0",
                "--max-new-tokens",
                "40",
            ]
        )
        == 0
    )
    found = json.loads(capfd.readouterr().out)
    assert complete(decoder(name), decoder(name).ids_of(content) + found["ids"])


def test_tools_that_cannot_be_read_are_said_in_one_line(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of a list as a server answers it, with one tool that is broken, and one unknown keyword."""
    good = {"type": "object", "properties": {"a": {"type": "string", "optional": True}}}
    listed = [{"name": "bad", "inputSchema": {"properties": None}}]
    listed += [{"name": "good", "inputSchema": good}]
    path = write(tmp_path / "tools.json", json.dumps({"tools": listed}))
    command = ["--model", str(folder), "--prompt", write(tmp_path / "p", json.dumps(RECORD))]
    command += ["--tools", path, "--max-new-tokens", "12", "--json"]
    assert main(command) == 2
    said = capfd.readouterr().err.splitlines()
    assert said == [
        "mypt-generate: error: tool 'bad' at /properties: expected an object of schemas, got null"
    ]
    assert main([*command, "--skip-unreadable"]) == 0
    first, second = capfd.readouterr().err.splitlines()
    assert "read as nothing in the schemas of tools: optional" in first
    assert "left out: tool 'bad' at /properties" in second


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("{", [], "not JSON"),
        ('{"messages": []}', [], "MYP"),
        ("Hello", [], "MYP210"),
        (json.dumps(RECORD), ["--dialect", "nope"], "known are"),
        (json.dumps(RECORD), ["--max-new-tokens", "2"], "takes 4 tokens"),
        (json.dumps(RECORD), ["--temperature", "-1"], "temperature"),
        (json.dumps(RECORD), ["--stop", "<myPT_user>"], "can write"),
        (json.dumps(RECORD), ["--device", "nothing"], "--device nothing"),
        (json.dumps(RECORD), ["--tools", "missing.json"], "cannot read missing.json"),
        (json.dumps(RECORD), ["--model", "missing"], "cannot read missing"),
        (
            json.dumps(
                RECORD | {"messages": [*RECORD["messages"], {"role": "assistant", "content": "Yo"}]}
            ),
            [],
            "where the model may not write; end it where",
        ),
    ],
)
def test_errors(
    folder: Path,
    tmp_path: Path,
    text: str,
    options: list[str],
    says: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(["--model", str(folder), "--prompt", write(tmp_path / "p", text), *options]) == 2
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

    seen: list[Any] = []
    real = module.generate
    monkeypatch.setattr(
        module,
        "generate",
        lambda *a, decoder, **k: seen.append(decoder) or real(*a, decoder=decoder, **k),
    )
    d = mypt_spec.dialect(name)
    path = write(tmp_path / "p", d.tokenizer.decode(d.encode(prompt(name), partial=True).ids))
    assert (
        main(
            [
                "--model",
                str(folder),
                "--prompt",
                path,
                "--dialect",
                name,
                "--max-new-tokens",
                "20",
                "--json",
                *flags,
            ]
        )
        == 0
    )
    assert [of.forbidden_blocks for of in seen] == [forbidden_blocks]


def test_without_torch_it_says_what_to_install(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["--model", "x", "--prompt", write(tmp_path / "p", json.dumps(RECORD))]) == 2
    assert "pip install 'mypt-tags[infer]'" in capfd.readouterr().err


def test_help_has_an_example() -> None:
    assert "mypt-generate --model runs/7m --prompt question.json" in main.parser().format_help()


@pytest.mark.parametrize(
    ("name", "text", "pieces"),
    [
        ("mypt", "<myPT_assistant><myPT_think>a<b</myPT_think>ü 🎉</myPT_assistant><myPT_eot>", [("tag", "assistant"), ("tag", "think"), ("text", "a<b"), ("text", "ü 🎉")]),
        ("praxis", 'See <tin>\n{"name": "t", "arguments": {}}\n</tin>', [("text", "See "), ("tag", "tin"), ("text", '{"name": "t", "arguments": {}}')]),
        ("praxis", "a <b> < c", [("text", "a <b> < c")]),
        ("mypt-3b", '<assistant>\n<toolcall name="t">\n{}\n</toolcall>\n</assistant>', [("tag", "assistant"), ("tag", "toolcall t"), ("text", "{}")]),
    ],
)  # fmt: skip
def test_what_is_shown(name: str, text: str, pieces: list[tuple[str, str]]) -> None:
    d = mypt_spec.dialect(name)
    shown = Shown(d)
    ids: list[int] = []
    for event in d.lex(text):
        ids += (
            [d.tokenizer.special[event.text]]
            if event.text in d.tokenizer.special
            else [i for b in event.text.encode() for i in _byte(d, b)]
        )
    found: list[tuple[str, str]] = []
    for kind, piece in [p for i in ids for p in shown.token(i)] + list(shown.rest()):
        if found and kind == "text" == found[-1][0]:
            found[-1] = (kind, found[-1][1] + piece)
        else:
            found.append((kind, piece))
    merged = [p for p in found if p[1].strip("\n")]
    expected: list[tuple[str, str]] = []
    for kind, piece in pieces:
        expected = (
            [*expected[:-1], ("text", expected[-1][1] + piece)]
            if expected and kind == "text" == expected[-1][0]
            else [*expected, (kind, piece)]
        )
    assert [
        (k, t.strip("\n") if k == "text" and name != "mypt" else t) for k, t in merged
    ] == expected


def _byte(d: Any, byte: int) -> list[int]:
    return [next(i for i in range(256) if d.tokenizer.decode_bytes([i]) == bytes([byte]))]


@pytest.mark.numeric
@pytest.mark.parametrize(
    "how",
    [
        {"do_sample": True, "temperature": 3.0},
        {"num_beams": 3},
        {"num_beams": 3, "do_sample": True},
    ],
)
def test_in_the_loop_of_transformers(how: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from mypt_infer.generate.huggingface import TagLogitsProcessor

    made = decoder("mypt", think=5, call=64)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=50304, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, eos_token_id=50256, pad_token_id=50256, bos_token_id=None)  # fmt: skip
    llama = transformers.LlamaForCausalLM(config).eval()
    ids = made.ids_of(prompt("mypt"))
    longer = [*ids[:-1], *made.dialect.tokenizer.encode(" there"), ids[-1]]
    width = len(longer)
    rows = torch.tensor([[50256] * (width - len(r)) + r for r in (ids, longer, ids)])
    for budget in (4, 9, 24):
        processor = TagLogitsProcessor(made, max_new_tokens=budget)
        out = llama.generate(
            rows,
            attention_mask=(rows != 50256).long(),
            max_new_tokens=budget + 1,
            logits_processor=[processor],
            **how,
        )
        for row, before in zip(out, (ids, longer, ids), strict=True):
            new = processor.generated(row)
            assert len(new) <= budget
            assert complete(made, before + new)


@pytest.fixture(scope="module")
def short(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model, with 64 positions."""
    out = tmp_path_factory.mktemp("short")
    config = json.loads((folder / "config.json").read_text()) | {"max_position_embeddings": 64}
    (out / "config.json").write_text(json.dumps(config))
    (out / "model.safetensors").symlink_to(folder / "model.safetensors")
    return out


def long_prompt(words: int) -> str:
    said = {"role": "user", "content": "word " * words}
    return json.dumps({"system": "S", "messages": [said]})


def test_a_prompt_longer_than_the_model_can_read_is_refused(
    short: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "p.json", long_prompt(100))
    assert main(["--model", str(short), "--prompt", path]) == 2
    out, err = capfd.readouterr()
    assert not out
    assert "the prompt has 106 tokens; the model has 64 positions" in err


def test_an_answer_gets_the_positions_that_are_left(
    short: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "p.json", long_prompt(20))
    assert main(["--model", str(short), "--prompt", path, "--json", "--seed", "1"]) == 0
    out, err = capfd.readouterr()
    assert "at most 38 new tokens: the model has 64 positions, the prompt 26 tokens" in err
    assert json.loads(out)["ended"] == "turn"
    assert json.loads(out)["tokens"] <= 38
    few = ["--prompt", path, "--max-new-tokens", "30"]
    assert main(["--model", str(short), *few, "--json"]) == 0
    assert "positions" not in capfd.readouterr().err


def test_no_prompt_is_read_beyond_the_last_position() -> None:
    from mypt_infer.generate.generate import generate
    from mypt_infer.generate.llama import LlamaConfig, random_model

    vocabulary = decoder("mypt").tables.vocabulary
    model = random_model(LlamaConfig(vocabulary, 8, 16, 1, 2, 1, max_position_embeddings=40))
    ids = decoder("mypt").ids_of(prompt("mypt"))
    with pytest.raises(ValueError, match="the model has 40 positions"):
        generate(model, [ids], decoder=decoder("mypt"), max_new_tokens=41 - len(ids))
    assert generate(model, [ids], decoder=decoder("mypt"), max_new_tokens=40 - len(ids))


def test_an_answer_may_be_bound(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("llguidance")
    command = ["--model", str(folder), "--prompt", write(tmp_path / "p.json", json.dumps(RECORD))]
    command += ["--json", "--seed", "1", "--max-new-tokens", "60", "--no-think"]
    schema = write(tmp_path / "s.json", '{"type": "object", "properties": {"ok": {"enum": [true]}}, "required": ["ok"], "additionalProperties": false}')  # fmt: skip
    lark = write(tmp_path / "g.lark", 'start: "A" | "B"')
    for option, wanted in (
        (["--response-regex", "^(yes|no)$"], {"yes", "no"}),
        (["--response-schema", schema], {'{"ok": true}'}),
        (["--response-lark", lark], {"A", "B"}),
    ):
        assert main([*command, *option]) == 0
        said = json.loads(capsys.readouterr().out)["record"]["messages"][-1]["content"]
        assert re.sub("<myPT_cite>.*?</myPT_cite>", "", said) in wanted
    for option, why in (
        (["--response-regex", "a("], "the regex of the response: invalid regex"),
        (["--response-schema", lark], "is not JSON"),
        (["--response-schema", write(tmp_path / "t.json", '{"type": "x"}')], "'x' is no type"),
    ):
        assert main([*command, *option]) == 2
        assert why in capsys.readouterr().err
    assert main([*command, "--max-new-tokens", "3", "--response-regex", "a{200}"]) == 2
    assert "max_new_tokens is 3; the shortest legal ending" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["mistral", "mistral-v13", "qwen3", "harmony", "llama3"])
def test_a_prompt_may_end_with_a_result(name: str) -> None:
    """Where results are inside of the answer, it goes on after them."""
    function = {"name": "f", "description": "Does it.", "parameters": {"type": "object"}}
    call = {"name": "f", "arguments": "{}"}
    record = {
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": "abcdefghi", "type": "function", "function": call},
            ]},
            {"role": "tool", "tool_call_id": "abcdefghi", "name": "f", "content": "20"},
        ],
        "tools": [{"type": "function", "function": function}],
    }  # fmt: skip
    d = mypt_spec.dialect(name)
    ids = read_prompt(d, json.dumps(record))
    made = Decoder(d, [{"type": "function", "function": function}])
    state = made.start(ids, max_new_tokens=20)
    answer = d.tokenizer.encode("Twenty")[0]
    assert made.left(state) == 20
    assert name == "harmony" or made.allowed(state)[answer]
