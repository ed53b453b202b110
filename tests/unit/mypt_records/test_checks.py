"""What is wrong with a chat whatever its format: each rule where it finds, and where it must not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mypt_records.checks import findings
from mypt_records.checks.control import known
from mypt_records.shapes import read, shape_of
from mypt_spec.findings import Finding

USER = {"role": "user", "content": "Hi"}
ANSWER = {"role": "assistant", "content": "Hello."}


def call(arguments: Any = "{}", *, name: str = "find", ident: str | None = "1") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"type": "function", "function": function} | ({"id": ident} if ident else {})


def calling(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def result(ident: str | None = "1", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "content": "4"} | ({"tool_call_id": ident} if ident else {}) | more


def declared(parameters: Any, name: str = "find") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def found(record: Any) -> list[Finding]:
    return findings(read(record, shape_of(record)))


def said(*messages: Any, **more: Any) -> list[tuple[str, str]]:
    return [(f.code, f.pointer) for f in found({"messages": list(messages)} | more)]


PARAMETERS = {
    "type": "object",
    "properties": {"q": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["q"],
}
TURN = (calling(call('{"q": "x"}')), result(), ANSWER)


@pytest.mark.parametrize(
    "messages",
    [
        [USER, ANSWER],
        [ANSWER],
        [{"role": "system", "content": "S"}, {"role": "developer", "content": "D"}, USER, ANSWER],
        [USER, *TURN, USER, *TURN],
        [USER, calling(call(), call(ident="2")), result("2"), result("1"), ANSWER],
        [USER, calling(call(ident=None), call(ident=None)), result(None), result(None), ANSWER],
        [USER, calling(call())],
        [USER, calling(call(), call(ident="2")), result()],
        [USER, {"role": "assistant", "content": "Let me look."}, *TURN],
        [USER, {"role": "assistant", "content": "", "tool_calls": [call()]}, result(), ANSWER],
        [USER | {"name": "a"}, USER | {"name": "b"}, ANSWER],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}, ANSWER],
        [USER, {"role": "assistant", "content": "HTML: <s>old</s> new"}],
        [USER, {"role": "assistant", "content": "<think>Hm.</think>Hello."}],
        [USER, {"role": "assistant", "content": "In Jinja, write {{name}}."}],
        [USER, {"role": "assistant", "content": 'print(f"{{name}}")'}],
        [{"role": "user", "content": "No input is given."}, ANSWER],
    ],
)
def test_clean_records_have_no_finding(messages: list[Any]) -> None:
    assert said(*messages) == []


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (
            [USER, ANSWER, {"role": "system", "content": "S"}, USER, ANSWER],
            ("MYP250", "/messages/2"),
        ),
        ([ANSWER, USER, ANSWER], ("MYP251", "/messages/0")),
        ([USER, ANSWER, USER], ("MYP252", "/messages/2")),
        ([USER, USER, ANSWER], ("MYP257", "/messages/1")),
        ([USER, ANSWER, ANSWER], ("MYP257", "/messages/2")),
        ([USER, result(), ANSWER], ("MYP310", "/messages/1")),
        ([USER, calling(call()), result("2")], ("MYP310", "/messages/2/tool_call_id")),
        ([USER, calling(call()), ANSWER], ("MYP311", "/messages/1/tool_calls/0")),
        (
            [USER, calling(call(), call(ident="2")), result("1"), ANSWER],
            ("MYP311", "/messages/1/tool_calls/1"),
        ),
        (
            [USER, calling(call(), call(ident="2")), result("1"), calling(call()), result()],
            ("MYP311", "/messages/1/tool_calls/1"),
        ),
        (
            [USER, calling(call(), call()), result(), result(), ANSWER],
            ("MYP351", "/messages/1/tool_calls/1/id"),
        ),
        ([USER, calling(call()), result(name="seek"), ANSWER], ("MYP312", "/messages/2/name")),
        (
            [USER, calling(call()), result(), result(), ANSWER],
            ("MYP349", "/messages/3/tool_call_id"),
        ),
        (
            [USER, calling(call(), call()), result(), ANSWER],
            ("MYP351", "/messages/1/tool_calls/1/id"),
        ),
        (
            [USER, calling(call(), call(ident="2")), result("1"), result(None), ANSWER],
            ("MYP352", "/messages/3"),
        ),
        ([{"role": "user", "content": ""}, ANSWER], ("MYP214", "/messages/0/content")),
        ([USER, {"role": "assistant", "content": " \n"}], ("MYP314", "/messages/1/content")),
        ([USER, {"role": "assistant", "content": "\xa0"}], ("MYP314", "/messages/1/content")),
        (
            [USER, calling(call('{"a": 1')), result(), ANSWER],
            ("MYP304", "/messages/1/tool_calls/0/function/arguments"),
        ),
        (
            [USER, calling(call("[1]")), result(), ANSWER],
            ("MYP332", "/messages/1/tool_calls/0/function/arguments"),
        ),
        (
            [USER, {"role": "assistant", "content": "Bye.<|im_end|>"}],
            ("MYP301", "/messages/1/content"),
        ),
        (
            [USER, {"role": "assistant", "content": "I am {{name}}."}],
            ("MYP358", "/messages/1/content"),
        ),
        ([{"role": "user", "content": "<noinput>"}, ANSWER], ("MYP358", "/messages/0/content")),
    ],
)
def test_each_fault_is_one_finding_at_its_place(
    messages: list[Any], expected: tuple[str, str]
) -> None:
    items = said(*messages)
    if expected[0] == "MYP352":  # the call that the result may answer is without one, too
        items = [item for item in items if item[0] != "MYP311"]
    assert items == [expected]


def test_the_first_question_is_named() -> None:
    (item,) = found({"messages": [{"role": "user", "content": ""}, ANSWER]})
    assert item.message == "the first user message is empty"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ('{"n": 1}', "MYP353", "'q' is a required property"),
        ('{"q": "x", "n": "1"}', "MYP353", "do not fit at /n: '1' is not of type 'integer'"),
        ({"q": "x", "n": "1"}, "MYP353", "'1' is not of type 'integer'"),
        ('{"q": "x", "city": null}', "MYP357", "has no parameter 'city'"),
        ({"q": "x", "city": None, "zip": None}, "MYP357", "'city', 'zip'"),
    ],
)
def test_arguments_are_held_to_the_schema(arguments: Any, code: str, words: str) -> None:
    turn = (calling(call(arguments)), result(), ANSWER)
    (item,) = found({"messages": [USER, *turn], "tools": [declared(PARAMETERS)]})
    assert item.code == code
    assert words in item.message
    assert item.pointer.startswith("/messages/1/tool_calls/0/function/arguments")
    assert said(USER, *TURN, tools=[declared(PARAMETERS)]) == []


def test_padding_is_one_finding_where_a_schema_is_closed() -> None:
    turn = (calling(call('{"q": "x", "city": null}')), result(), ANSWER)
    closed = PARAMETERS | {"additionalProperties": False}
    (item,) = found({"messages": [USER, *turn], "tools": [declared(closed)]})
    assert item.code == "MYP357"


def test_padding_is_found_where_the_schema_is_padded_too() -> None:
    turn = (calling(call({"q": "x", "city": None})), result(), ANSWER)
    padded = PARAMETERS | {"properties": PARAMETERS["properties"] | {"city": None}}
    items = found({"messages": [USER, *turn], "tools": [declared(padded)]})
    assert [item.code for item in items] == ["MYP128", "MYP357"]


def test_arguments_in_a_text_are_placed_at_the_text() -> None:
    value = json.dumps({"name": "find", "arguments": {"q": 1}})
    talk = [{"from": "human", "value": "Hi"}, {"from": "function_call", "value": value}]
    (item,) = found({"conversations": talk, "tools": json.dumps([declared(PARAMETERS)])})
    assert (item.code, item.pointer) == ("MYP353", "/conversations/1/value")


@pytest.mark.parametrize(
    ("parameters", "pointer", "hint"),
    [
        ({"type": "dict", "properties": {}}, "/type", 'write "type": "object"'),
        ({"properties": {"a": {"type": "float"}}}, "/properties/a/type", 'write "type": "number"'),
        ({"items": {"type": ["str", "null"]}}, "/items/type/0", 'write "type": "string"'),
        ({"type": "any"}, "/type", "leave"),
        ({"type": "banana"}, "/type", "types are string, integer"),
        (
            {"properties": {"a": {"type": "string", "required": True}}},
            "/properties/a/required",
            "not a mark of a single property",
        ),
        ({"properties": {"a": {}, "required": ["a"]}}, "/properties/required", "beside"),
        ({"q": {"type": "string", "description": "d"}}, "/q", '"properties": {...}'),
        ({"properties": {"a": {}, "b": None}, "required": None}, "/required", "leave out"),
        ({"properties": {"a": {"type": "object", "items": None}}}, "/properties/a/items", "table"),
        (["q"], "", 'write {"type": "object", ...}'),
    ],
)
def test_what_is_no_schema_is_said_with_what_to_write(
    parameters: Any, pointer: str, hint: str
) -> None:
    (item,) = found({"messages": [USER, ANSWER], "tools": [declared(parameters)]})
    assert (item.code, item.pointer) == ("MYP128", f"/tools/0/function/parameters{pointer}")
    assert hint in item.help


@pytest.mark.parametrize(
    "parameters", [{}, {"type": "object"}, {"default": None}, PARAMETERS, {"$ref": "#"}, None]
)
def test_a_schema_is_no_finding(parameters: Any) -> None:
    assert said(USER, ANSWER, tools=[declared(parameters)]) == []


def test_a_tool_without_a_name_may_take_code() -> None:
    turn = (calling(call("1 + 1", name="python")), result(), ANSWER)
    tools = [declared(PARAMETERS), {"type": "code_interpreter"}]
    assert said(USER, *turn, tools=tools) == []
    assert [code for code, _ in said(USER, *turn, tools=tools[:1])] == ["MYP304", "MYP313"]


def test_a_tool_is_declared_once() -> None:
    tools = [declared(PARAMETERS), declared({})]
    assert said(USER, ANSWER, tools=tools) == [("MYP126", "/tools/1/function/name")]


@pytest.mark.parametrize("text", known("formats").formats)
def test_each_control_string_is_found_with_its_format(text: str) -> None:
    (item,) = found({"messages": [USER, {"role": "assistant", "content": f"Well. {text}"}]})
    assert (item.code, item.severity, item.span) == ("MYP301", "warning", (6, 6 + len(text)))
    assert known("formats").formats[text] in item.message


def test_a_thought_in_an_answer_is_found_where_thoughts_are_separate() -> None:
    first = {"role": "assistant", "content": "A", "reasoning_content": "t"}
    second = {"role": "assistant", "content": "<think>t</think>B"}
    assert said(USER, first, USER, second) == [("MYP301", "/messages/3/content")] * 2


@pytest.mark.parametrize("sign", ["noinput", "<noinput>", "Noinput ", "<No Input>"])
def test_signs_of_alpaca_for_nothing_are_found(sign: str) -> None:
    (item,) = found({"instruction": "Write a haiku.", "input": sign, "output": "Leaves."})
    assert (item.code, item.pointer) == ("MYP358", "/input")


def test_the_other_answer_is_checked_too() -> None:
    record = {
        "prompt": [USER],
        "chosen": [ANSWER],
        "rejected": [{"role": "assistant", "content": ""}],
    }
    assert [(f.code, f.pointer) for f in found(record)] == [("MYP214", "/rejected/0/content")]
