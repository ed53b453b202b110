"""Calls are read from a body, and from an episode, in each kind of body."""

from __future__ import annotations

from typing import Any

import pytest

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_spec.bodies.call_tags import BareKeys, Keywords, Tags
from mypt_spec.bodies.json_body import Call, calls_in, calls_of
from mypt_spec.bodies.strict_json import canonical
from mypt_spec.episode import Message, Part
from mypt_spec.rules.context import ToolSchema
from mypt_spec.table import CALLS, LISTS
from tests.support.build import assistant, call, calls, chat, function, system, tool, user

X = {"x": [1]}
LISTED = [
    {"id": "c1", "type": "function", "function": {"name": "t", "arguments": X}},
    {"type": "function", "function": {"name": "u", "arguments": {}}},
]
BODIES: dict[str, tuple[Any, list[Call]]] = {
    "call": ({"name": "t", **X}, [Call("t", X)]),
    "arguments": (X, [Call("t", X)]),
    "function": ({"name": "t", "arguments": X}, [Call("t", X)]),
    "parameters": ({"name": "t", "parameters": X}, [Call("t", X)]),
    Tags(): ({"name": "t", "arguments": {"x": "[1]"}}, [Call("t", X)]),
    BareKeys("~"): (X, [Call("t", X)]),
    "calls": (LISTED, [Call("t", X, "c1"), Call("u", {})]),
    "functions": (
        [{"name": "t", "arguments": X, "id": "c1"}, {"name": "u", "arguments": {}}],
        [Call("t", X, "c1"), Call("u", {})],
    ),
    Keywords(["[", ", ", "]"], "'"): ([{"name": "t", "arguments": X}], [Call("t", X)]),
}


@pytest.mark.parametrize("kind", BODIES)
def test_the_calls_of_a_body(kind: str) -> None:
    value, expected = BODIES[kind]
    assert calls_in(value, kind, (("name", "t"),)) == expected


def test_there_is_an_example_of_each_kind() -> None:
    assert set(BODIES) == {*CALLS, *LISTS}


@pytest.mark.parametrize("name", mypt_spec.dialects())
def test_the_calls_of_messages(name: str) -> None:
    """What a system prompt quotes is no call, and a mark holds none."""
    table = mypt_spec.dialect(name).table
    for kind, opener in table.openers.items():
        if opener.body in BODIES:
            value, expected = BODIES[opener.body]
            part = Part(kind, canonical(value, table.literals), (("name", "t"),))
            alone = Message(kind, (Part("text", part.text),), part.attrs)
            assert [*calls_of([alone], table)] == expected
            others = {k: t for k, t in table.openers.items() if t.body not in BODIES}
            for role, block in others.items():
                messages = [Message(role, (Part("text", "T"), part)), *map(Message, table.marks)]
                assert [*calls_of(messages, table)] == ([] if block.quotes else expected)


@pytest.mark.parametrize("name", sorted({*mypt_spec.dialects()} - {"chatml", "gabgpt"}))
def test_settings_have_schemas_of_arguments(name: str) -> None:
    """Lists of calls are held to them, too; they come before the tools of the record."""
    asked = calls(call("find", '{"q": 1}', id="abcdefghi"))
    record = chat(
        system(), user(), asked, tool(tool_call_id="abcdefghi"), assistant(),
        tools=[function("find", {"q": {}})],
    )  # fmt: skip
    schema = ToolSchema("find", '{"properties": {"q": {"type": "string"}}}')
    for schemas in ((), (schema,)):
        limits = mypt_spec.Limits(schemas=schemas)
        found = Checker(mypt_spec.dialect(name), limits, shape="openai").record_findings(record)
        assert [f.code for f in found if f.code != "MYP114"] == ["MYP353"] * len(schemas)
