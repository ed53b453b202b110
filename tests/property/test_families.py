"""The folders of model families: text, mask and ids are those of the templates, by each way."""

from __future__ import annotations

import json
from random import Random

import pytest

import mypt.own_format.check
from mypt_infer.controller import Script
from mypt_infer.controller.events import TurnEnd
from mypt_infer.toolbox import Toolbox
from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_train.data.encode_line import Encoder, Options
from mypt_train.export.chat_template import chat_template
from tests.support.chat_shapes import chat
from tests.support.examples import either
from tests.support.families import ALL, Family
from tests.support.fast_paths import assert_same_ids, assert_sound
from tests.support.maker import Maker, Record
from tests.support.scripted import check_legal, run_turn

EXAMPLES = either(5, 200)
EVERY = pytest.mark.parametrize("family", ALL.values(), ids=ALL)
# Each column is in one of these.
FEWEST = either(
    ("smollm2", "llama3_1", "gemma3", "mistral_7b", "deepseek_r1", "phi3", "deepseek_v3_1", "glm"),
    tuple(ALL),
)
SOME = pytest.mark.parametrize("family", [ALL[name] for name in FEWEST], ids=FEWEST)


def records(family: Family, *, clean: bool = True) -> list[Record]:
    """Returns chats of a family that it can say."""
    out: list[Record] = []
    number = 0
    while len(out) < EXAMPLES:
        number += 1
        random = Random(f"{family.name} {clean} {number}")
        record = chat(Maker(random, family.shape.name, clean=clean, tags=False), family.shape)
        findings = family.dialect.check(record)[1]
        if all(f.severity != "error" for f in findings):
            out.append(record)
    return out


@SOME
def test_the_folder_is_right(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mypt.own_format.check, "EPISODES", either(8, 200))
    monkeypatch.setattr(mypt.own_format.check, "GENERATIONS", either(1, 30))
    results = list(mypt.own_format.check.check(family.folder))
    assert [result for result in results if result.fine is not True] == []


@pytest.mark.parametrize("official", [False, True], ids=["written here", "official"])
@EVERY
def test_text_is_that_of_the_template(family: Family, official: bool) -> None:
    d = family.dialect
    some = records(family)
    strips = any(t.strip for t in d.table.terminals.values())
    for record in [*some, *map(spaced, some * strips)]:
        episode, findings = d.check(record)
        assert episode is not None
        text = family.rendered(record, official=official)
        assert d.serialize(episode) == text, record
        canonical = d.write(episode)
        assert d.read(canonical)[0] == episode
        assert d.write(d.read(canonical)[0]) == canonical
        if not findings:
            assert d.parse(text) == (episode, [])
            # White space of a system message may be at the beginning of a question; a text does
            # not say which options made it.
            spaced_out = d.adapter.system.question and strips
            unsaid = {"MYP258"} if spaced_out or "chat_template_kwargs" in record else set()
            assert {f.code for f in d.validate(d.parse(text)[0])} <= {"MYP313"} | unsaid
        prompt = record | {"messages": record["messages"][:-1]}
        if record["messages"][-1]["role"] == "assistant":
            assert d.check_prefix(
                family.rendered(prompt, official=official, add_generation_prompt=True)
            ).findings == []  # fmt: skip


@SOME
def test_the_exported_template_says_the_same(family: Family) -> None:
    rendering = pytest.importorskip("transformers.utils.chat_template_utils")
    d = family.dialect
    made = chat_template(d)
    some = records(family)
    for record in [*some, *map(spaced, some)]:
        episode, _ = d.read(record)
        (text,), spans = rendering.render_jinja_template(
            conversations=[record["messages"]], tools=record.get("tools"),
            chat_template=made, return_assistant_tokens_mask=True,
            **record.get("chat_template_kwargs", {}),
        )  # fmt: skip
        assert text == d.serialize(episode)
        encoded = d.encode(episode)
        trained = "".join(text[a:b] for a, b in spans[0])
        assert trained == d.tokenizer.decode(encoded.ids[encoded.loss == 1])


@SOME
def test_the_fast_paths_agree(family: Family) -> None:
    d = family.dialect
    lines = [
        json.dumps(record).encode()
        for some in (True, False)
        for record in records(family, clean=some)
    ]
    lines += [json.dumps(spaced(record)).encode() for record in records(family)]
    assert_sound(CleanFilter(Checker(d)), lines)
    for history in either(("keep", "per-turn"), ("keep", "official", "per-turn")):
        options = Options(
            dialect=str(family.folder),
            history=history,
            mask="model" if history != "per-turn" else "last",
        )
        assert_same_ids(Encoder(options), slow(options), lines)


def spaced(record: Record) -> Record:
    """Returns a record whose texts have white space around them."""
    messages = [
        m | {"content": f" {m['content']}\n"} if m.get("content") else m for m in record["messages"]
    ]
    return record | {"messages": messages}


def slow(options: Options) -> Encoder:
    encoder = Encoder(options)
    encoder.chats = encoder.templates = None
    return encoder


@SOME
def test_a_chat_goes_on(family: Family) -> None:
    d = family.dialect
    closer = d.table.closers.get(d.adapter.paths["answer"][0])
    end = closer.bare.strip("\n") if closer else "<|user|>"
    said = [[*d.tokenizer.encode(text), d.table.special[end]] for text in ("Four.", "\nFive. ")]
    controller, events = run_turn(said[0], Toolbox([]), str(family.folder), text="2+2?")
    controller.source = Script(said[1])
    events += controller.say("One more?")
    check_legal(controller)
    assert [e.reason for e in events if isinstance(e, TurnEnd)] == ["stop", "stop"]
    answers = [m["content"] for m in controller.record()["messages"] if m["role"] == "assistant"]
    strips = d.table.openers[d.adapter.paths["answer"][0]].strip
    assert answers == ["Four.", "Five." if strips else "\nFive. "]
    assert controller.answer()["content"] == answers[1]
