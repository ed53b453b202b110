"""Records of OpenAI and TRL as chats: what is read, where it stands, what is not understood."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mypt_records.chat import Chat, Given, Text
from mypt_records.checks import findings
from mypt_records.shapes import read, shape_of
from mypt_spec.bodies.strict_json import value_at

USER, SAID = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}
TOOL = {
    "type": "function",
    "function": {"name": "find", "description": "d", "parameters": {"type": "object"}},
}


def call(name: str = "find", arguments: Any = '{"q": 1}', **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def chat(*messages: Any, **more: Any) -> Chat:
    return read({"messages": list(messages), **more}, "openai")


FULL = {
    "messages": [
        {"role": "system", "content": "S"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None, "reasoning_content": "t", "weight": 0, "tool_calls": [call(id="c1")]},
        {"role": "tool", "tool_call_id": "c1", "name": "find", "content": "4"},
        {"role": "assistant", "content": "Hello.", "tool_calls": []},
    ],
    "tools": [TOOL],
    "chat_template_kwargs": {"enable_thinking": True},
    "parallel_tool_calls": None,
}  # fmt: skip


def test_a_full_record() -> None:
    found = read(FULL, "openai")
    assert found.findings == ()
    assert [(m.role, m.text) for m in found.messages] == [
        ("system", "S"), ("user", "ab"), ("assistant", ""), ("tool", "4"), ("assistant", "Hello."),
    ]  # fmt: skip
    _, user, asked, result, _ = found.messages
    assert user.content == (
        Text("a", "/messages/1/content/0/text"),
        Text("b", "/messages/1/content/1/text"),
    )
    assert asked.content is None
    assert asked.thoughts == (Text("t", "/messages/2/reasoning_content"),)
    assert asked.weight == Given(0, "/messages/2/weight")
    (made,) = asked.calls
    assert (made.name.text, made.id and made.id.text) == ("find", "c1")
    assert made.arguments == Given('{"q": 1}', "/messages/2/tool_calls/0/function/arguments")
    assert result.answers == Text("c1", "/messages/3/tool_call_id")
    assert found.tools is not None
    assert found.tools[0].parameters == Given({"type": "object"}, "/tools/0/function/parameters")
    assert set(found.extras) == {"tools", "chat_template_kwargs"}


def places(value: Any) -> list[tuple[str, Any]]:
    """All (pointer, value) that a part of a chat names."""
    if isinstance(value, Text):
        return [(value.at, value.text)]
    if isinstance(value, Given):
        return [(value.at, value.value)]
    if isinstance(value, tuple):
        return [found for item in value for found in places(item)]
    if hasattr(value, "__dataclass_fields__"):
        return [f for name in value.__dataclass_fields__ for f in places(getattr(value, name))]
    return []


def test_pointers_lead_to_the_values() -> None:
    found = places(read(FULL, "openai"))
    assert len(found) > 10
    assert all(value_at(FULL, at) == value for at, value in found)


@pytest.mark.parametrize(
    "record",
    [
        {"messages": [USER, SAID]},
        {"messages": [USER, SAID | {"name": "x", "refusal": None, "annotations": []}]},
        {"messages": [USER, {"role": "assistant", "content": None, "refusal": "No."}]},
        {"messages": [USER, {"role": "assistant", "tool_calls": [call(arguments={"q": 1})]}, {"role": "tool", "name": "find", "content": "4"}, SAID]},
        {"messages": [USER, {"role": "assistant", "content": "", "function_call": {"name": "find", "arguments": "{}"}}, {"role": "function", "name": "find", "content": "4"}, SAID]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "a", "image_url": None}]}, SAID]},
        {"messages": [USER, SAID | {"reasoning_content": "t", "reasoning": "t", "thinking": ""}]},
        {"messages": [USER, SAID], "_note": None, "tools": json.dumps([TOOL])},
    ],
)  # fmt: skip
def test_what_is_understood(record: Any) -> None:
    assert findings(read(record, "openai")) == []
    assert shape_of(record) == "openai"


@pytest.mark.parametrize(
    ("record", "code", "pointer"),
    [
        ([], "MYP101", ""),
        ({"messages": []}, "MYP104", "/messages"),
        ({"messages": ["Hi"]}, "MYP104", "/messages/0"),
        ({"messages": [{"content": "Hi"}, SAID]}, "MYP104", "/messages/0"),
        ({"messages": [USER | {"role": "robot"}]}, "MYP105", "/messages/0/role"),
        ({"messages": [USER | {"content": None}]}, "MYP104", "/messages/0/content"),
        ({"messages": [USER, {"role": "assistant", "content": None}]}, "MYP104", "/messages/1/content"),
        ({"messages": [USER | {"content": [{"type": "poem"}]}]}, "MYP104", "/messages/0/content/0"),
        ({"messages": [USER | {"contents": "Hi"}]}, "MYP103", "/messages/0/contents"),
        ({"messages": [USER, SAID], "sauce": "x"}, "MYP103", "/sauce"),
        ({"messages": [USER, SAID], "a": float("nan"), "_b": None}, "MYP005", "/a"),
        ({"messages": [USER, SAID], "tools": "[{"}, "MYP104", "/tools"),
        ({"messages": [USER, SAID], "tools": {}}, "MYP104", "/tools"),
        ({"messages": [USER, SAID | {"tool_calls": {}}]}, "MYP104", "/messages/1/tool_calls"),
        ({"messages": [USER, SAID | {"tool_calls": [{"id": "1"}]}]}, "MYP104", "/messages/1/tool_calls/0"),
        ({"messages": [USER, SAID | {"tool_calls": [call() | {"type": "custom"}]}]}, "MYP104", "/messages/1/tool_calls/0/type"),
        ({"messages": [USER, SAID | {"weight": "1"}]}, "MYP104", "/messages/1/weight"),
        ({"messages": [USER, SAID | {"weight": -1}]}, "MYP104", "/messages/1/weight"),
        ({"messages": [USER, SAID | {"loss_weight": 1001}]}, "MYP104", "/messages/1/loss_weight"),
        ({"messages": [USER, SAID | {"thinking": "a", "reasoning": "b"}]}, "MYP121", "/messages/1/reasoning"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_a_finding(record: Any, code: str, pointer: str) -> None:
    found = read(record, "openai").findings
    assert (code, pointer) in {(f.code, f.pointer) for f in found}
    assert len(found) == (2 if code == "MYP005" else 1)


def test_the_help_for_a_weight_is_of_its_key() -> None:
    """A switch takes no number, so nothing advises one."""
    for key, value, advised in (("weight", -1, True), ("train", 0, False)):
        (found,) = read({"messages": [USER, SAID | {key: value}]}, "openai").findings
        assert (found.code, "0 is not trained" in found.help) == ("MYP104", advised)


def test_an_undeclared_tool() -> None:
    asked = {"role": "assistant", "tool_calls": [call("find"), call("search")]}
    (found,) = findings(chat(USER, asked, tools=[TOOL]))
    assert (found.code, found.pointer) == ("MYP313", "/messages/1/tool_calls/1/function/name")
    assert found.help == "declared are find"
    assert not findings(chat(USER, asked)), "where nothing is declared, nothing is undeclared"
    assert not findings(chat(USER, asked, tools=[])), "as with an empty list"
    text = chat(USER, asked, tools=json.dumps([TOOL]))
    assert [(f.code, f.pointer) for f in findings(text)] == [(found.code, found.pointer)]


def test_parts_as_llama_factory_writes_them() -> None:
    """Each has its text under `value`, and calls and thoughts are parts, too."""
    parts = [
        {"type": "reasoning", "value": "t"},
        {"type": "text", "value": "a"},
        {"type": "tool_call", "value": '{"name": "find", "arguments": {"q": 1}}'},
    ]
    found = chat(USER | {"loss_weight": 0.0}, {"role": "assistant", "content": parts})
    assert findings(found) == []
    message = found.messages[1]
    assert message.thoughts == (Text("t", "/messages/1/content/0/value"),)
    assert message.content == (Text("a", "/messages/1/content/1/value"),)
    assert [(c.name.text, c.arguments) for c in message.calls] == [
        ("find", Given({"q": 1}, "/messages/1/content/2/value"))
    ]
    assert found.messages[0].weight == Given(0.0, "/messages/0/loss_weight")
