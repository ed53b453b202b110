"""What the rules for chats of any format say, and what they compare; corpus.py has their records."""

from __future__ import annotations

import json
from typing import Any

import pytest

import mypt_spec
from mypt_records.checks import findings
from mypt_records.checks.control import strings_of
from mypt_records.shapes import read, shape_of
from mypt_spec.findings import Finding
from tests.support.build import Record, assistant, call, calls, chat, function, tool, user

PARAMETERS = function("find", {"q": {"type": "string"}, "n": {"type": "integer"}}, required=["q"])


def turn(arguments: Any = '{"q": "x"}', name: str = "find", **more: Any) -> Record:
    """A question that is answered with a call."""
    calling = calls(call(name, arguments, id="1"), content=None)
    return chat(user(), calling, tool(tool_call_id="1"), assistant(), **more)


def declared(parameters: Any) -> Record:
    definition = function("find")
    definition["function"]["parameters"] = parameters
    return definition


def findings_of(record: Any) -> list[Finding]:
    return findings(read(record, shape_of(record)))


def places(record: Any) -> list[tuple[str, str]]:
    return [(f.code, f.pointer) for f in findings_of(record)]


def test_the_first_question_is_named() -> None:
    (item,) = findings_of(chat(user(""), assistant()))
    assert item.message == "the first user message is empty"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ('{"n": 1}', "MYP353", "'q' is a required property"),
        ('{"q": "x", "n": "1"}', "MYP353", "do not fit at /n: '1' is not of type 'integer'"),
        ({"q": "x", "n": "1"}, "MYP353", "'1' is not of type 'integer'"),
        ('{"q": "x", "m": 1}', "MYP353", "'find' has no parameter 'm'"),
        ('{"q": "x", "city": null}', "MYP357", "has no parameter 'city'"),
        ({"q": "x", "city": None, "zip": None}, "MYP357", "'city', 'zip'"),
    ],
)
def test_arguments_are_held_to_the_schema(arguments: Any, code: str, words: str) -> None:
    (item,) = findings_of(turn(arguments, tools=[PARAMETERS]))
    assert item.code == code
    assert words in item.message
    assert item.pointer.startswith("/messages/1/tool_calls/0/function/arguments")
    assert places(turn(tools=[PARAMETERS])) == []


def test_padding_is_one_finding_where_a_schema_is_closed_or_padded_too() -> None:
    padded = {"q": "x", "city": None}
    closed = function("find", {"q": {"type": "string"}}, additionalProperties=False)
    assert [code for code, _ in places(turn(json.dumps(padded), tools=[closed]))] == ["MYP357"]
    both = function("find", {"q": {"type": "string"}, "city": None})
    assert [code for code, _ in places(turn(padded, tools=[both]))] == ["MYP128", "MYP357"]


def test_arguments_in_a_text_are_placed_at_the_text() -> None:
    value = json.dumps({"name": "find", "arguments": {"q": 1}})
    talk = [{"from": "human", "value": "Hi"}, {"from": "function_call", "value": value}]
    record = {"conversations": talk, "tools": json.dumps([PARAMETERS])}
    assert places(record) == [("MYP353", "/conversations/1/value")]


@pytest.mark.parametrize(
    ("parameters", "pointer", "hint"),
    [
        ({"type": "dict", "properties": {}}, "/type", "write the types of JSON Schema"),
        ({"properties": {"a": {"type": "float"}}}, "/properties/a/type", "write the types of JSON Schema"),
        ({"properties": {"a": {"type": "str, optional"}}}, "/properties/a/type", 'write "type": "string", and leave the name out of "required"'),
        ({"items": {"type": ["str", "null"]}}, "/items/type/0", "write the types of JSON Schema"),
        ({"type": "any"}, "/type", 'write the types of JSON Schema; leave "type" out for any value'),
        ({"type": "banana"}, "/type", "types are string, integer"),
        ({"properties": {"a": {"type": "string", "required": True}}}, "/properties/a/required", "not a mark of a single property"),
        ({"properties": {"a": {}, "required": ["a"]}}, "/properties/required", "beside"),
        ({"q": {"type": "string", "description": "d"}}, "/q", '"properties": {...}'),
        ({"properties": {"a": {}, "b": None}, "required": None}, "/required", "leave out"),
        ({"properties": {"a": {"type": "object", "items": None}}}, "/properties/a/items", "table"),
        (["q"], "", 'write {"type": "object", ...}'),
    ],
)  # fmt: skip
def test_the_help_for_what_is_no_schema(parameters: Any, pointer: str, hint: str) -> None:
    (item,) = findings_of(chat(tools=[declared(parameters)]))
    assert (item.code, item.pointer) == ("MYP128", f"/tools/0/function/parameters{pointer}")
    assert hint in item.help


@pytest.mark.parametrize(
    "parameters", [{}, {"type": "object"}, {"default": None}, {"$ref": "#"}, None]
)
def test_a_schema_is_no_finding(parameters: Any) -> None:
    assert places(chat(tools=[declared(parameters)])) == []


def test_a_tool_without_a_name_may_take_code() -> None:
    tools = [PARAMETERS, {"type": "code_interpreter"}]
    assert places(turn("1 + 1", "python", tools=tools)) == []
    codes = [code for code, _ in places(turn("1 + 1", "python", tools=tools[:1]))]
    assert codes == ["MYP304", "MYP313"]


@pytest.mark.parametrize("name", mypt_spec.dialects())
def test_tags_of_every_format_of_the_package_are_found(name: str) -> None:
    """Whatever the record's shape, but for tags that texts have for other reasons."""
    common = {"<s>", "<start>", "<end>", *strings_of("thoughts").formats}
    common |= {"<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"}
    for tag in {*mypt_spec.dialect(name).table.special} - common:
        record = chat(user(), assistant(f"x{tag}"), tools=[PARAMETERS])
        (item,) = findings(read(record, "openai"))
        assert (item.code, item.severity) == ("MYP301", "warning")


@pytest.mark.parametrize("text", strings_of("formats").formats)
def test_each_control_string_is_found_with_its_format(text: str) -> None:
    (item,) = findings_of(chat(user(), assistant(f"Well. {text}")))
    assert (item.code, item.severity, item.span) == ("MYP301", "warning", (6, 6 + len(text)))
    assert strings_of("formats").formats[text] in item.message


@pytest.mark.parametrize("sign", ["noinput", "<noinput>", "Noinput ", "<No Input>"])
def test_signs_of_alpaca_for_nothing_are_found(sign: str) -> None:
    record = {"instruction": "Write a haiku.", "input": sign, "output": "Leaves."}
    assert places(record) == [("MYP358", "/input")]


def test_a_result_without_an_id_after_one_call_is_a_warning() -> None:
    one, two = call("find", '{"q": "x"}', id="1"), call("find", '{"q": "y"}', id="2")
    bare = {"role": "tool", "content": "x"}
    for made, severity in ([one], "warning"), ([one, two], "error"):
        record = chat(user(), calls(*made, content=None), bare, assistant())
        assert ("MYP352", severity) in [(f.code, f.severity) for f in findings_of(record)]


def test_a_result_with_an_empty_name_is_of_its_call() -> None:
    record = turn()
    record["messages"][2]["name"] = ""
    assert "MYP312" not in dict(places(record))
    record["messages"][2]["name"] = "other"
    assert "MYP312" in dict(places(record))


def test_the_other_answer_is_checked_too() -> None:
    record = {"prompt": [user()], "chosen": [assistant()], "rejected": [assistant("")]}
    assert places(record) == [("MYP214", "/rejected/0/content")]


def test_an_argument_without_a_parameter_is_an_error_where_the_schema_forbids_it() -> None:
    severities = []
    for more in ({}, {"additionalProperties": False}):
        schema = PARAMETERS["function"]["parameters"] | more
        record = turn('{"q": "x", "nn": 1}', tools=[declared(schema)])
        (item,) = findings_of(record)
        severities.append(item.severity)
        assert item.span is not None
        text = record["messages"][1]["tool_calls"][0]["function"]["arguments"]
        assert text[slice(*item.span)] == '"nn"'
    assert severities == ["warning", "error"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"tool_choice": {"type": "function", "function": {"name": "seek"}}}, ["MYP313"]),
        ({"tool_choice": {"type": "function", "function": {"name": "find"}}}, []),
        ({"tool_choice": "auto"}, []),
        ({"tools": [declared({"type": "object", "properties": {}, "required": ["q"]})]}, ["MYP128"]),
        (
            {"tools": [declared({"type": "object", "properties": {}, "required": ["q"],
                                 "additionalProperties": True})]},
            [],
        ),
    ],
)  # fmt: skip
def test_what_tools_and_choices_name_is_declared(change: dict[str, Any], code: list[str]) -> None:
    record = chat(tools=[declared({"type": "object", "properties": {}})]) | change
    assert [f.code for f in findings_of(record)] == code


@pytest.mark.parametrize(
    ("chosen", "rejected", "code"),
    [
        ("It is so.", "It  is SO.\n", ["MYP129"]),
        ("It is so.", "It is not so.", []),
        ([user("A?"), assistant()], [user("B?"), assistant()], ["MYP261"]),
        ([user("A?"), assistant("1")], [user("A?"), assistant("2"), user("B?")], ["MYP252"]),
        (
            [user("A?"), assistant("1"), user("B?"), assistant("2")],
            [user("A?"), assistant("3"), user("C?"), assistant("4")],
            [],
        ),
    ],
)
def test_sides_of_preferences(chosen: Any, rejected: Any, code: list[str]) -> None:
    record = {"chosen": chosen, "rejected": rejected}
    record |= {"prompt": "Who?"} if isinstance(chosen, str) else {}
    assert [f.code for f in findings(read(record, "preference"))] == code


@pytest.mark.parametrize(
    "keys",
    ["prompt completion", "prompt response", "instruction output", "prompt chosen rejected"],
)
def test_a_stop_token_of_an_answer_stays(keys: str) -> None:
    """Nobody knows whether the trainer of a text without a template adds one."""
    record = dict(zip(keys.split(), ["Q:", " 4<|endoftext|>\n", "5"], strict=False))
    (finding,) = findings(read(record, shape_of(record)))
    assert (finding.code, finding.severity, finding.fix) == ("MYP301", "info", None)
