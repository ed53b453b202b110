"""Records of OpenAI and TRL as chats: what is read, where it stands, what is not understood."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mypt_convert import Converter
from mypt_records.chat import Chat, JsonValue, Text
from mypt_records.checks import findings
from mypt_records.shapes import read, shape_of
from mypt_spec.bodies.strict_json import value_at
from tests.support import build
from tests.support.build import assistant, call, calls, function, system, tool, user

USER, ANSWER, TOOL = user(), assistant(), function("find")


def chat(*messages: Any, **more: Any) -> Chat:
    return read(build.chat(*messages, **more), "openai")


FULL = {
    "messages": [
        system(),
        user([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        calls(call(id="c1"), content=None, reasoning_content="t", weight=0),
        tool(tool_call_id="c1", name="find"),
        assistant(tool_calls=[]),
    ],
    "tools": [TOOL],
    "chat_template_kwargs": {"enable_thinking": True},
    "parallel_tool_calls": None,
}  # fmt: skip


def test_a_full_record() -> None:
    chat = read(FULL, "openai")
    assert [(f.code, f.pointer) for f in chat.findings] == [("MYP125", "/messages/4/tool_calls")]
    assert [(m.role, m.text) for m in chat.messages] == [
        ("system", "S"), ("user", "ab"), ("assistant", ""), ("tool", "4"), ("assistant", "Hello."),
    ]  # fmt: skip
    _, question, calling, result, _ = chat.messages
    assert question.content == (
        Text("a", "/messages/1/content/0/text"),
        Text("b", "/messages/1/content/1/text"),
    )
    assert calling.content is None
    assert calling.thoughts == (Text("t", "/messages/2/reasoning_content"),)
    assert calling.weight == JsonValue(0, "/messages/2/weight")
    (one,) = calling.calls
    assert (one.name.text, one.id and one.id.text) == ("find", "c1")
    assert one.arguments == JsonValue('{"q": 1}', "/messages/2/tool_calls/0/function/arguments")
    assert result.answers == Text("c1", "/messages/3/tool_call_id")
    assert chat.tools is not None
    assert chat.tools[0].parameters == JsonValue(
        function()["function"]["parameters"], "/tools/0/function/parameters"
    )
    assert set(chat.extras) == {"tools", "chat_template_kwargs"}


def places(value: Any) -> list[tuple[str, Any]]:
    """All (pointer, value) that a part of a chat names."""
    if isinstance(value, Text):
        return [(value.at, value.text)]
    if isinstance(value, JsonValue):
        return [(value.at, value.value)]
    if isinstance(value, tuple):
        return [place for item in value for place in places(item)]
    if hasattr(value, "__dataclass_fields__"):
        return [f for name in value.__dataclass_fields__ for f in places(getattr(value, name))]
    return []


def test_pointers_lead_to_the_values() -> None:
    named = places(read(FULL, "openai"))
    assert len(named) > 10
    assert all(value_at(FULL, at) == value for at, value in named)


@pytest.mark.parametrize(
    "record",
    [
        {"messages": [USER, ANSWER | {"name": "x", "refusal": None, "annotations": []}]},
        build.chat(USER, calls(call(arguments={"q": 1})), tool(name="find"), ANSWER, tools=[{"name": "find"}]),
        {"messages": [USER, {"role": "assistant", "content": "", "function_call": {"name": "find", "arguments": "{}"}}, {"role": "function", "name": "find", "content": "4"}, ANSWER], "functions": [{"name": "find"}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "a", "image_url": None}]}, ANSWER]},
        {"messages": [USER, ANSWER | {"reasoning_content": "t", "reasoning": "t", "thinking": ""}]},
        {"messages": [USER, ANSWER], "_note": None, "tools": json.dumps([TOOL])},
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
        ({"messages": [USER | {"content": [{"type": "poem"}]}]}, "MYP104", "/messages/0/content/0"),
        ({"messages": [USER | {"content": [{"type": [], "text": "x"}]}]}, "MYP104", "/messages/0/content/0"),
        ({"messages": [USER, ANSWER], "sauce": "x"}, "MYP112", "/sauce"),
        ({"messages": [USER, ANSWER], "a": float("nan"), "_b": None}, "MYP005", "/a"),
        ({"messages": [USER, ANSWER], "tools": "[{"}, "MYP104", "/tools"),
        ({"messages": [USER, ANSWER], "tools": {}}, "MYP104", "/tools"),
        ({"messages": [USER, ANSWER | {"tool_calls": {}}]}, "MYP104", "/messages/1/tool_calls"),
        ({"messages": [USER, ANSWER | {"tool_calls": [{"id": "1"}]}]}, "MYP104", "/messages/1/tool_calls/0"),
        ({"messages": [USER, ANSWER | {"tool_calls": [call() | {"type": "custom"}]}]}, "MYP104", "/messages/1/tool_calls/0/type"),
        ({"messages": [USER, ANSWER | {"weight": "1"}]}, "MYP104", "/messages/1/weight"),
        ({"messages": [USER, ANSWER | {"weight": -1}]}, "MYP104", "/messages/1/weight"),
        ({"messages": [USER, ANSWER | {"loss_weight": 1001}]}, "MYP104", "/messages/1/loss_weight"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_a_finding(record: Any, code: str, pointer: str) -> None:
    places = [(f.code, f.pointer) for f in read(record, "openai").findings]
    assert (code, pointer) in places
    assert len(places) == (2 if code == "MYP005" else 1)


def test_the_help_for_a_weight_is_of_its_key() -> None:
    """A switch takes no number, so nothing advises one."""
    for key, value, advised in (("weight", -1, True), ("train", 0, False)):
        (finding,) = chat(USER, ANSWER | {key: value}).findings
        assert (finding.code, "0 is not trained" in finding.help) == ("MYP104", advised)


def test_an_undeclared_tool() -> None:
    calling = calls(call("find", "{}"), call("search"), content=None)
    for tools in ([TOOL], json.dumps([TOOL])):
        (finding,) = findings(chat(USER, calling, tools=tools))
        place = "/messages/1/tool_calls/1/function/name"
        assert (finding.code, finding.pointer) == ("MYP313", place)
        assert finding.help == "declared are find"


@pytest.mark.parametrize(
    "declared", [{}, {"tools": None}, {"tools": []}, {"functions": []}, {"tools": "[]"}]
)
def test_calls_without_tools(declared: Any) -> None:
    """One remark for a record, unless its prompt names all that is called."""
    calling = calls(call("find", "{}"), call("search"), content=None)
    (finding,) = findings(chat(USER, calling, **declared))
    place = ("MYP134", "info", "/messages/1/tool_calls/0")
    assert (finding.code, finding.severity, finding.pointer) == place
    for prompt, codes in (("Use find() and search().", []), ("Use find().", ["MYP134"])):
        record = chat(system(prompt), USER, calling, **declared)
        assert [f.code for f in findings(record)] == codes


def test_parts_as_llama_factory_writes_them() -> None:
    """Each has its text under `value`, and calls and thoughts are parts, too."""
    parts = [
        {"type": "reasoning", "value": "t"},
        {"type": "text", "value": "a"},
        {"type": "tool_call", "value": '{"name": "find", "arguments": {"q": 1}}'},
    ]
    record = chat(user(loss_weight=0.0), assistant(parts), tools=[{"name": "find"}])
    assert findings(record) == []
    message = record.messages[1]
    assert message.thoughts == (Text("t", "/messages/1/content/0/value"),)
    assert message.content == (Text("a", "/messages/1/content/1/value"),)
    assert [(c.name.text, c.arguments) for c in message.calls] == [
        ("find", JsonValue({"q": 1}, "/messages/1/content/2/value"))
    ]
    assert record.messages[0].weight == JsonValue(0.0, "/messages/0/loss_weight")


@pytest.mark.parametrize("role", ["tool_call", "function_call"])
@pytest.mark.parametrize("result", ["tool_response", "observation", "tool"])
def test_a_call_may_be_a_message_of_its_role(role: str, result: str) -> None:
    """As ms-swift writes it: its content is JSON text, of one call or of several."""
    text = '[{"name": "f", "arguments": {"q": 1}}, {"name": "g", "arguments": {}}]'
    messages = [USER, {"role": role, "content": text}, {"role": result, "content": "4"}, ANSWER]
    chat = read({"messages": messages}, "openai")
    assert chat.findings == ()
    assert [(m.role, m.text) for m in chat.messages] == [
        ("user", "Hi"), ("assistant", ""), ("tool", "4"), ("assistant", "Hello."),
    ]  # fmt: skip
    assert [(c.name.text, c.arguments.value) for c in chat.messages[1].calls] == [
        ("f", {"q": 1}),
        ("g", {}),
    ]
    broken = read({"messages": [USER, {"role": role, "content": "{'name': 'f'}"}]}, "openai")
    assert [(f.code, f.pointer) for f in broken.findings] == [("MYP304", "/messages/1/content")]


def test_roles_of_calls_in_a_row_are_one_answer() -> None:
    """As ms-swift reads them, also after a text; unless only one of them is trained."""
    one, two = ({"role": "tool_call", "content": json.dumps({"name": "f", "arguments": {"x": n}})} for n in (1, 2))  # fmt: skip
    results = [{"role": "tool_response", "content": str(n)} for n in (1, 2)]
    end: dict[str, Any] = {"role": "assistant", "content": "Yo"}
    for answers, roles in (
        ([one, two], "uatta"),
        ([end, one, two], "uatta"),
        ([end | {"loss": False}, one, two], "uaatta"),
        ([one | {"loss": False}, two | {"loss": False}], "uatta"),
    ):
        record = {"messages": [USER, *answers, *results, end]}
        messages = read(record, "openai").messages
        assert "".join(m.role[0] for m in messages) == roles
        called = [call.arguments and call.arguments.value for m in messages for call in m.calls]
        assert called == [{"x": 1}, {"x": 2}]
        assert (Converter("openai", "qwen3").record(record).record is not None) == (len(roles) == 5)
