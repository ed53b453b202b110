"""Against Hugging Face: an export loads there, and has the same ids, masks and refusals."""

from __future__ import annotations

import json
import random
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import bench.data
import mypt_spec
from mypt.export import main
from mypt_spec.history import official
from mypt_spec.tokenizer.vocabulary import FILE
from mypt_train.curriculum import episodes
from mypt_train.data.encode_line import Encoder
from mypt_train.data.formats.options import Options
from mypt_train.export import ExportError, export
from mypt_train.export.tokenizer_file import PAD
from tests.support.build import (
    assistant,
    call,
    calls,
    chat,
    function,
    message,
    system,
    tool,
    user,
    write,
)
from tests.support.chat_templates import CHATML
from tests.support.examples import examples
from tests.support.foreign import path as foreign
from tests.support.foreign import tekken
from tests.support.huggingface import encode, tokenizer
from tests.support.strategies import any_text, records
from tests.support.tolerance import assert_close, forward_terms
from tests.support.vocabulary import path, small

pytest.importorskip("transformers")

D = mypt_spec.dialect("mypt")
TOOL = {"type": "function", "function": function("f", {"q": {"type": "integer"}})["function"] | {"description": "Find."}}  # fmt: skip
VOCABULARIES = {"gpt2": None, "small": str(path())}


@cache
def theirs(name: str) -> Any:
    return tokenizer(D if name == "gpt2" else small("mypt"))


@cache
def encoder(name: str) -> Encoder:
    return Encoder(Options(pack=False, vocabulary=VOCABULARIES[name]))


def comparable(record: dict[str, Any]) -> bool:
    """Returns whether a record has no null, which they drop, and not what they call padding."""
    if any("content" in m and m["content"] is None for m in record["messages"]):
        return False
    return PAD not in json.dumps(record, ensure_ascii=False)


def differences(name: str, record: dict[str, Any]) -> list[str]:
    """Returns what differs between the tokens of transformers and ours: ids or mask."""
    encoded = encode(theirs(name), [record])
    (sample,) = encoder(name).record(record).samples
    ids = encoded["input_ids"][0] == sample.ids.tolist()
    mask = np.array_equal(encoded["assistant_masks"][0], sample.mask)
    return ["ids"] * (not ids) + ["mask"] * (not mask)


@pytest.mark.parametrize("name", VOCABULARIES)
@given(records("mypt", clean=False).filter(comparable))
@settings(max_examples=examples(100))
def test_same_ids_and_masks_on_odd_records(name: str, record: dict[str, Any]) -> None:
    """Tags in the JSON of calls and results too: there both write them in letters."""
    assert not differences(name, record)


@pytest.mark.parametrize("name", VOCABULARIES)
def test_same_ids_and_masks_on_made_up_episodes(name: str) -> None:
    """On 1,100 of them in `nox -s thorough`."""
    rng = random.Random(1)
    each, of_a_phase = examples(500), examples(120)
    random_ones = (bench.data.record(rng) | {"system": "S"} for _ in range(each))
    of_phases = (r for phase in range(1, 6) for r in episodes(phase, of_a_phase, seed=9))
    for record in [*random_ones, *of_phases]:
        assert not differences(name, record), record


FIELDS = [("system", ""), ("user", "content"), ("user", "context"), ("assistant", "think"), ("assistant", "cite"), ("assistant", "content"), ("assistant_context", "content")]  # fmt: skip


@given(
    st.sampled_from(FIELDS),
    st.sampled_from([*D.tokenizer.special, PAD]),
    any_text("mypt"),
    any_text("mypt"),
)
def test_content_that_spells_a_tag_is_refused(
    field: tuple[str, str], tag: str, before: str, behind: str
) -> None:
    import jinja2

    text = before + tag + behind
    record = {"system": "S", **chat(user("u", context="c"), message("assistant_context", "x"), assistant("a", think="t", cite="d"))}  # fmt: skip
    if field[0] == "system":
        record["system"] = text
    else:
        next(m for m in record["messages"] if m["role"] == field[0])[field[1]] = text
    outcome = encoder("gpt2").record(record)
    if tag != PAD:
        assume(not outcome.samples)
    with pytest.raises(jinja2.exceptions.TemplateError, match=r"spells|must enclose"):
        encode(theirs("gpt2"), [record])


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([user("u")], "`<myPT_user>` may not come here; expected <myPT_system>"),
        ([system(), system()], "stands first"),
        ([system(), tool()], "no call waits"),
        ([system(), message("critic")], "no such role"),
        ([system(""), user("u")], "expected text"),
        ([system("s"), user("u"), calls(call("f", '{"q": }'))], r"must be an object or its JSON text, and are not at \"}\""),
        ([system("s"), user("u"), calls(call("f", "[1]"))], "must be an object or its JSON text"),
        ([system("s"), user("u"), calls(call("f", None))], "must be an object or its JSON text"),
        ([system(), user([{"type": "text", "text": "u"}])], "expected a string"),
    ],
)  # fmt: skip
def test_chats_that_the_template_refuses(messages: list[dict[str, Any]], says: str) -> None:
    import jinja2

    with pytest.raises(jinja2.exceptions.TemplateError, match=says):
        theirs("gpt2").apply_chat_template(messages)


def test_the_template_refuses_tools() -> None:
    import jinja2

    with pytest.raises(jinja2.exceptions.TemplateError, match="name the tools in the system prom"):
        theirs("gpt2").apply_chat_template([system()], tools=[TOOL])


def checkpoint(folder: Path, *, vocab_size: int = 448) -> Path:
    import torch
    from safetensors.torch import save_file

    from mypt_infer.generate.llama import LlamaConfig, shapes

    shape: dict[str, Any] = {"vocab_size": vocab_size, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "tie_word_embeddings": True}  # fmt: skip
    write(folder / "config.json", shape | {"model_type": "llama", "max_position_embeddings": 256})
    torch.manual_seed(0)
    tensors = {n: torch.randn(s) * 0.3 for n, s in shapes(LlamaConfig(**shape)).items()}
    save_file(tensors, str(folder / "model.safetensors"))
    return folder


@pytest.mark.numeric
def test_the_folder_loads_in_transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    import transformers

    from mypt_infer.generate.llama import load

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    source = checkpoint(tmp_path / "run")
    (source / FILE).write_bytes(path().read_bytes())
    out = export(source, tmp_path / "out")
    model = transformers.AutoModelForCausalLM.from_pretrained(out)
    loaded = transformers.AutoTokenizer.from_pretrained(out)
    record = next(episodes(5, 1, seed=4))
    messages = [system(record["system"]), *record["messages"]]
    ids = loaded.apply_chat_template(messages, return_dict=True)["input_ids"]
    assert ids == small("mypt").encode(small("mypt").read(record)[0]).ids.tolist()  # type: ignore[arg-type]
    ours = load(out)
    with torch.inference_mode():
        mine = ours(torch.tensor([ids]), torch.tensor([len(ids)]), ours.begin(1, len(ids)))
        terms = forward_terms(model.config, len(ids))
        assert_close(mine[0], model(torch.tensor([ids])).logits[0, -1], terms=terms)
    special = small("mypt").tokenizer.special
    ends = [special["</myPT_assistant>"], special["<myPT_eot>"]]
    assert model.generation_config.eos_token_id == ends
    assert (loaded.eos_token_id, loaded.pad_token_id) == (ends[1], small("mypt").tokenizer.pad)
    prompt = loaded.apply_chat_template(
        messages[:2], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    assert prompt["input_ids"][0, -1] == special["<myPT_assistant>"]
    assert loaded.decode(model.generate(**prompt, max_new_tokens=20)[0])
    assert (out / FILE).read_bytes() == path().read_bytes()


@pytest.mark.parametrize("name", ["chatml", "qwen3", "mistral", "mistral-v13", "llama3", "harmony"])
def test_chats_on_the_vocabulary_of_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The folder has the ids of the vocabulary, in transformers and when it is named by --vocab."""
    pytest.importorskip("tokenizers")
    import transformers

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    vocabulary = tekken() if name.startswith("mistral") else foreign("qwen")
    d = mypt_spec.dialect(name, vocabulary=vocabulary)
    source = checkpoint(tmp_path / "run", vocab_size=d.tokenizer.vocab_size)
    out = export(source, tmp_path / "out", dialect=name, vocabulary=vocabulary)
    loaded = transformers.AutoTokenizer.from_pretrained(out)
    called = calls(call("f", {"q": 1}, id="call00001"))
    asked = [called, tool("4", tool_call_id="call00001")] if name != "chatml" else []
    record = chat(user("Hi  12\n"), *asked, assistant("Four."))
    record |= {"tools": [TOOL]} if asked else {}
    episode, findings = d.check(record)
    assert episode is not None
    assert not [f for f in findings if f.severity == "error"]
    episode = official(episode, d.table)
    rendered = loaded.apply_chat_template(
        record["messages"], tools=record.get("tools"), return_dict=True,
        return_assistant_tokens_mask=True,
    )  # fmt: skip
    encoded = d.encode(episode)
    assert rendered["input_ids"] == encoded.ids.tolist()
    assert rendered["assistant_masks"] == encoded.loss.tolist()
    again = mypt_spec.dialect(name, vocabulary=out / "tokenizer.json")
    assert again.encode(episode).ids.tolist() == encoded.ids.tolist()


def test_a_model_that_names_no_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its format is that of its chat template, and its vocabulary that of its tokenizer."""
    pytest.importorskip("tokenizers")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    size = mypt_spec.dialect("chatml", vocabulary=foreign("qwen")).tokenizer.vocab_size
    source = checkpoint(tmp_path / "model", vocab_size=size)
    shutil.copy(foreign("qwen") / "tokenizer.json", source)
    (source / "chat_template.jinja").write_text(CHATML)
    says: list[str] = []
    out = export(source, tmp_path / "out", servers=["vllm"], say=says.append)
    assert "proved: chat" in says[0]
    assert json.loads((out / "config.json").read_text())["vocab_size"] == size


def test_what_cannot_be_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = checkpoint(tmp_path / "run")
    out = tmp_path / "out"
    for options, says in (
        ({}, "the model has 448 ids, mypt has 50304"),
        ({"dialect": "praxis"}, "praxis has 50304"),
        ({"dialect": "mypd"}, "no dialect"),
        ({"vocabulary": tmp_path / "none"}, "cannot be read"),
    ):
        with pytest.raises(ExportError, match=says):
            export(source, out, **options)  # type: ignore[arg-type]
    assert not out.exists()
    assert main([str(tmp_path / "run"), str(source), "--vocab", str(path())]) == 2
    assert "is not empty" in capsys.readouterr().err
    (source / "config.json").write_text("{")
    assert main([str(source), str(out)]) == 2
    assert "config.json is not JSON" in capsys.readouterr().err
    (source / "model.safetensors").unlink()
    assert main([str(source), str(out)]) == 2
    assert "has no model.safetensors" in capsys.readouterr().err
    assert not out.exists()
