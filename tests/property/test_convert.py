"""Conversion: nothing is lost in silence, whatever goes in; all that is kept comes back."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_convert import Converter, readable
from mypt_convert.bridges.steps import result_text, result_value
from mypt_spec.bodies.strict_json import escape, unescape
from tests.support.chats import WITH_TOOLS
from tests.support.conversion import without_ids
from tests.support.fast_paths import parts
from tests.support.maker import Maker, any_json, drawn
from tests.support.strategies import DIALECTS, alter, json_values, records

# Each example draws its target, so that the time grows with the dialects and not with the pairs.
FROM_EACH = settings(max_examples=3 * settings().max_examples)
SPELLED = st.sampled_from(["5", '"5"', '"x"', "[1]", "null", '{"a": 1}', '"\\"5\\""', "NaN"])
JSON = json_values(st.text(max_size=8) | SPELLED)


@given(JSON)
def test_every_value_has_one_text(value: Any) -> None:
    text = result_text(value)
    assert json.dumps(result_value(text)) == json.dumps(value)
    assert result_text(result_value(text)) == text


@given(st.text() | JSON.map(json.dumps) | JSON.map(lambda v: json.dumps(json.dumps(v))))
def test_every_text_has_one_value(text: str) -> None:
    assert result_text(result_value(text)) == text


@pytest.mark.parametrize("source", DIALECTS)
@FROM_EACH
@given(st.sampled_from(DIALECTS), st.data())
def test_there_and_back(source: str, target: str, data: st.DataObject) -> None:
    one, two = mypt_spec.dialect(source), mypt_spec.dialect(target)
    record = data.draw(records(source, clean=data.draw(st.booleans())))
    episode, _ = one.read(record)
    assert episode is not None
    canonical = one.write(episode)
    before = json.dumps(record)
    there = Converter(source, target).record(record)
    assert json.dumps(record) == before, "converting changes nothing"
    if there.record is None:
        assert there.findings
        assert source != target
        return
    again, findings = two.read(there.record)
    assert again is not None
    assert not [f for f in [*findings, *two.validate(again)] if f.severity == "error"]
    if there.losses:
        assert source != target or one.read(record)[1], "what reading leaves out has a warning"
        return
    back = Converter(target, source).record(there.record)
    assert (back.findings, back.losses) == ((), ())
    found: Any = back.record
    if there.named:  # a format that needs ids has made some
        found, canonical = without_ids(found), without_ids(canonical)
    assert json.dumps(found, sort_keys=True) == json.dumps(canonical, sort_keys=True)


@pytest.mark.parametrize("source", DIALECTS)
@FROM_EACH
@given(st.sampled_from(DIALECTS), st.data())
def test_what_is_lost_and_what_is_kept_add_up(
    source: str, target: str, data: st.DataObject
) -> None:
    """Every text of the source is in the target's record, or a loss points to it."""
    record = data.draw(records(source))
    there = Converter(source, target).record(record)
    if there.record is None or source == target:
        return
    held = json.dumps([v[k] for v, k in parts(there.record) if isinstance(v[k], str)])
    lost = [f"{loss.pointer}/" for loss in there.losses]
    for i, message in enumerate(record["messages"]):
        for key in ("content", "think", "cite", "context"):
            text = message.get(key)
            if not isinstance(text, str) or "<" in text:
                continue
            spelled = json.dumps(text)[1:-1]
            said = spelled in held or json.dumps(spelled)[1:-1] in held
            assert said or any(f"/messages/{i}/{key}/".startswith(at) for at in lost), (key, there)


def junk(random: Random) -> Any:
    """Returns JSON that is shaped like a chat, more or less."""
    record = WITH_TOOLS.record(random)
    for _ in range(random.randrange(7)):
        alter(random, record, JUNK_KEYS)
    return record if random.randrange(8) else any_json(random)


JUNK_KEYS = ["messages", "tools", "system", "role", "content", "tool_calls", "tool_call_id", "name", "weight", "id", "function", "arguments"]  # fmt: skip


@pytest.mark.parametrize("source", readable())
@given(drawn(junk), st.sampled_from([None, "S"]))
def test_anything_is_converted_or_refused(source: str, value: Any, system: str | None) -> None:
    for target in DIALECTS:
        out = Converter(source, target, system=system).record(value)
        assert (out.record is None) == bool(out.findings)


KEYS = ["note", "_note", "logprobs", "name", "_name", "a/b", "~", "", "content "]
MORE = drawn(
    lambda random: {key: any_finite(random) for key in random.sample(KEYS, random.randrange(4))}
)


def any_finite(random: Random) -> Any:
    """Returns a JSON value of any kind."""
    return Maker(random, "mypt").value()


@pytest.mark.parametrize("source", [*DIALECTS, "openai"])
@given(st.data())
def test_unknown_keys_are_metadata_or_lost_or_refused(source: str, data: st.DataObject) -> None:
    """The values are as they were, what was there before is not written over, and each key is
    either said to be kept or said to be lost."""
    record = data.draw(records("gabgpt" if source == "openai" else source))
    meant = {key for message in record["messages"] for key in message} | {*record, "name"}
    meant -= {"think"} if source == "openai" else set()
    unknown: dict[str, Any] = {}
    places = [(f"/messages/{i}", message) for i, message in enumerate(record["messages"])]
    for at, where in [("", record), *places]:
        more = data.draw(MORE)
        where |= {k: v for k, v in more.items() if k not in meant or k.startswith("_")}
        unknown |= {
            f"{at}/{escape(k)}": v
            for k, v in where.items()
            if k not in meant and not k.startswith("_")
        }
    before = json.dumps(record)
    for target in DIALECTS:
        out = Converter(source, target, system="S").record(record)
        assert json.dumps(record) == before, "converting changes nothing"
        if out.record is None:
            continue
        lost = {loss.pointer for loss in out.losses}
        below = {at for at in unknown if any(f"{loss}/".startswith(f"{at}/") for loss in lost)}
        void = {at for at, value in unknown.items() if value is None and at.endswith("/logprobs")}
        assert not below & set(out.metadata)
        assert set(unknown) == below | set(out.metadata) | (void if source == "openai" else set())
        held = json.dumps(out.record)
        for at in out.metadata:
            name = unescape(at.rpartition("/")[2])
            assert json.dumps({f"_{name}": unknown[at]})[1:-1] in held
        for key, value in record.items():
            if key.startswith("_") and f"/{key}" not in lost:
                assert json.dumps(out.record[key]) == json.dumps(value)
