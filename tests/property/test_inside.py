"""Findings inside of JSON texts are at the characters of the file that they are about."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt_lint.check.checker import Checker
from tests.support.build import call, chat, user

WRONG = 424242
KEYS = st.text(min_size=1, max_size=4).filter(lambda key: key.isprintable()) | st.sampled_from(
    ["a/b", "~", '"', "\\", "\U0001f600", "é\n"]
)
Json = dict[str, Any]


@st.composite
def misfits(draw: st.DrawFn) -> tuple[Json, Json]:
    """Returns arguments with one wrong value in them, and their schema."""
    value: Any = WRONG
    schema: Json = {"type": "string"}
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            value, schema = ["x"] * draw(st.integers(0, 2)) + [value], {"items": schema}
            if len(value) > 1 and schema["items"] != {"type": "string"}:
                value = value[-1:]
        key = draw(KEYS)
        more = draw(st.dictionaries(KEYS, st.text(max_size=3), max_size=2))
        value = {**more, key: value}
        schema = {"properties": {key: schema}, "additionalProperties": True}
    return value, schema


def spelled(value: Any) -> st.SearchStrategy[str]:
    """Returns JSON text of a value, spelled in one of the ways that people have."""
    ways = [{}, {"ensure_ascii": False}, {"indent": 1}, {"separators": (",", ":")}]
    return st.sampled_from([json.dumps(value, **way) for way in ways])  # type: ignore[arg-type]


def at(line: str, shape: str, code: str) -> str:
    """Returns the characters of a line that its one finding of a code is about."""
    checker = Checker(mypt_spec.dialect("mypt"), shape=shape, formatless=True)
    items = checker.line(line.encode("utf-8", "surrogatepass"), row=1, filename="f")
    (item,) = [item for item in items if item.finding.code == code]
    return line[item.column - 1 : item.end_column - 1]


def openai(text: str, tools: Any) -> Json:
    asked = {"role": "assistant", "tool_calls": [call("f", text, id="c")]}
    return chat(user(), asked, tools=tools)


def sharegpt(text: str, tools: Any) -> Json:
    messages = [{"from": "human", "value": "Hi"}, {"from": "function_call", "value": text}]
    return {"conversations": messages, "tools": tools}


@given(st.data(), misfits())
def test_a_wrong_value_in_arguments(data: st.DataObject, made: tuple[Json, Json]) -> None:
    value, schema = made
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    text = data.draw(spelled(value))
    line = json.dumps(openai(text, tools), ensure_ascii=data.draw(st.booleans()))
    assert at(line, "openai", "MYP353") == str(WRONG)
    asked = {"name": "f", "arguments": value}
    text = data.draw(spelled(data.draw(st.sampled_from([asked, [asked]]))))
    line = json.dumps(sharegpt(text, json.dumps(tools)), ensure_ascii=data.draw(st.booleans()))
    assert at(line, "sharegpt", "MYP353") == str(WRONG)


@given(st.data(), KEYS)
def test_a_key_that_pads_arguments(data: st.DataObject, key: str) -> None:
    tools = [{"name": "f", "parameters": {"type": "object", "properties": {"own": {}}}}]
    if key == "own":
        return
    text = data.draw(spelled({"own": 1, key: None}))
    line = json.dumps(openai(text, tools), ensure_ascii=data.draw(st.booleans()))
    source = at(line, "openai", "MYP357")
    assert json.loads(json.loads(f'"{source}"')) == key


@given(st.data(), KEYS)
def test_a_wrong_type_in_tools_that_are_a_text(data: st.DataObject, key: str) -> None:
    schema = {"type": "object", "properties": {"first": {"type": "string"}, key: {"type": "dict"}}}
    tools = [{"name": "e"}, {"type": "function", "function": {"name": "f", "parameters": schema}}]
    text = data.draw(spelled(tools))
    line = json.dumps(sharegpt('{"name": "f"}', text), ensure_ascii=data.draw(st.booleans()))
    source = at(line, "sharegpt", "MYP128")
    assert json.loads(json.loads(f'"{source}"')) == "dict"
