"""Conversion: nothing is lost in silence, whatever goes in; all that is kept comes back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_convert import Converter, readable
from mypt_convert.steps import result_text, result_value
from mypt_spec.bodies.strict_json import escape, unescape
from tests.support.conversion import without_ids
from tests.support.strategies import DIALECTS, json_values, records

# Each example draws its target, so that the time grows with the dialects and not with the pairs.
FROM_EACH = settings(max_examples=3 * settings().max_examples)
JSON = json_values(
    st.text(max_size=8)
    | st.sampled_from(["5", '"5"', '"x"', "[1]", "null", '{"a": 1}', '"\\"5\\""', "NaN"])
)


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
    given_as = json.dumps(record)
    there = Converter(source, target).record(record)
    assert json.dumps(record) == given_as, "converting changes nothing"
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
    kept = json.dumps(list(strings(there.record)))
    lost = [loss.pointer for loss in there.losses]
    for pointer, text in leaves(record):
        if (
            not any(pointer == at or pointer.startswith(f"{at}/") for at in lost)
            and "<" not in text
        ):
            assert (
                json.dumps(text)[1:-1] in kept or json.dumps(json.dumps(text)[1:-1])[1:-1] in kept
            ), (pointer, text, there)


def strings(value: Any) -> Any:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def leaves(record: Any) -> Any:
    """The contents of messages, with their pointers."""
    for i, message in enumerate(record["messages"]):
        for key in ("content", "think", "cite", "context"):
            if isinstance(message.get(key), str):
                yield f"/messages/{i}/{key}", message[key]


@pytest.mark.parametrize("source", readable())
@given(st.data())
def test_anything_is_converted_or_refused(source: str, data: st.DataObject) -> None:
    value = data.draw(anything())
    for target in DIALECTS:
        out = Converter(source, target, system=data.draw(st.none() | st.just("S"))).record(value)
        assert (out.record is None) == bool(out.findings)


KEYS = st.sampled_from(["note", "_note", "logprobs", "name", "_name", "a/b", "~", "", "content "])


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
        more = data.draw(st.dictionaries(KEYS, json_values(st.text(max_size=3)), max_size=3))
        where |= {k: v for k, v in more.items() if k not in meant or k.startswith("_")}
        unknown |= {
            f"{at}/{escape(k)}": v
            for k, v in where.items()
            if k not in meant and not k.startswith("_")
        }
    given_as = json.dumps(record)
    for target in DIALECTS:
        out = Converter(source, target, system="S").record(record)
        assert json.dumps(record) == given_as, "converting changes nothing"
        if out.record is None:
            continue
        lost = {loss.pointer for loss in out.losses}
        below = {at for at in unknown if any(f"{loss}/".startswith(f"{at}/") for loss in lost)}
        void = {at for at, value in unknown.items() if value is None and at.endswith("/logprobs")}
        assert not below & set(out.kept)
        assert set(unknown) == below | set(out.kept) | (void if source == "openai" else set())
        held = json.dumps(out.record)
        for at in out.kept:
            name = unescape(at.rpartition("/")[2])
            assert json.dumps({f"_{name}": unknown[at]})[1:-1] in held
        for key, value in record.items():
            if key.startswith("_") and f"/{key}" not in lost:
                assert json.dumps(out.record[key]) == json.dumps(value)


def anything() -> st.SearchStrategy[Any]:
    """JSON that is shaped like a chat record, more or less."""
    junk = json_values(st.text(max_size=5))
    call = st.fixed_dictionaries({}, optional={
        "id": st.sampled_from(["a", "b"]) | junk,
        "function": st.fixed_dictionaries({}, optional={"name": st.just("t") | junk, "arguments": st.just("{}") | junk}) | junk,
    })  # fmt: skip
    message = st.fixed_dictionaries(
        {},
        optional={
            "role": st.sampled_from(["system", "developer", "user", "assistant", "tool", "toolresult"]) | junk,
            "content": st.text(max_size=5) | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=3)}) | junk, max_size=2) | junk,
            "tool_calls": st.lists(call | junk, max_size=3) | junk,
            "tool_call_id": st.sampled_from(["a", "b"]) | junk,
            "name": st.just("t") | junk,
            "weight": junk,
        },
    )  # fmt: skip
    return (
        st.fixed_dictionaries(
            {},
            optional={
                "messages": st.lists(message | junk, max_size=5) | junk,
                "tools": junk,
                "system": junk,
            },
        )
        | junk
    )
