"""Records whose tools, names of tools and arguments no other record has: linter and preparing.

What the fast paths take of them is what the checker, and the segment path, make of each by itself.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_lint.fast.clean_texts import strings_of
from mypt_spec import Dialect, Limits
from mypt_spec.bodies.fitting import Fitting
from mypt_spec.bodies.json_schema import SchemaError, misfits
from mypt_spec.bodies.plain_schema import Definitions, is_plain, plain_tools, written
from mypt_spec.bodies.plain_signatures import SIGNS, readable, signed_tools
from mypt_spec.bodies.plain_tool_tags import SIGNS as TAG_SIGNS
from mypt_spec.bodies.plain_tool_tags import elements, whole_tools
from mypt_spec.bodies.read_signatures import read_signatures
from mypt_spec.bodies.signatures import lost, write_signatures
from mypt_spec.bodies.tool_tags import read_tool_tags, write_tool_tags
from mypt_spec.findings import RULES
from mypt_train.data.encode_line import Encoder
from mypt_train.data.options import Options
from tests.property.test_fast import agree, parts
from tests.property.test_templates import plain
from tests.support.examples import examples

ROOT = Path(__file__).resolve().parents[2]
BUT_LOST = frozenset(RULES) - {"MYP360"}  # the text of harmony says less than schemas do
CODER = str(ROOT / "examples/qwen3_coder")  # calls are tags, and so are tools
WITH_TOOLS = ("qwen3", "harmony", "mistral", "mistral-v13", "llama3", CODER)
WORDS = st.sampled_from(
    [
        "a", "City", "x_1", "b.c", "d-e", "_f", "é", "a b", "", " ", "\n", 'say "no"', "C:\\", "#", "# T",
        "</s>", "<|im_end|>", "<|im_ende|>", "[INST]", "[/INST]", "<tool_call>", "1", "true", "日本",
        "</parameter>", "<parameter=a>", "\n</function>", "<function>", "</name>", "5", "null", "// default: 1", "type f = ", "# Tools", "\u2028", "x" * 64,
    ]
)  # fmt: skip
TEXTS = st.sampled_from(["Hi", "a < b [1]", "é\n", "Yes."])
SCALARS = WORDS | st.sampled_from([0, -7, 2**53, 2**60, 10**30, 1.0, -0.5, 1e30, 1e-7, True, None])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    ["pattern", "title", "format", "additionalProperties", "anyOf", "x", "strict"]
)


@cache
def named(name: str) -> Dialect:
    return mypt_spec.load(name) if "/" in name else mypt_spec.dialect(name)


def new(number: int) -> dict[str, Any]:
    """A clean record that shares nothing with another but its shape."""
    given = {
        f"q{number}": {
            "type": "string",
            "description": f"Number {number}.",
            "enum": ["v", f"v{number}"],
        },
        "n": {"type": ["number", "null"], "maximum": number + 9, "default": 1},
        "l": {"type": "array", "items": {"type": "string"}, "minItems": 0},
        "o": {"type": "object"},
    }
    parameters = {"type": "object", "properties": given, "required": [f"q{number}", "n"]}
    function = {"name": f"get.f_{number}", "description": "It is.", "parameters": parameters}
    arguments: Any = {f"q{number}": f"v{number}", "n": 1.5, "l": ["a", "b"], "o": {"b": number}}
    arguments = arguments if number % 3 else json.dumps(arguments)
    called = {"name": function["name"], "arguments": arguments}
    call = {"id": f"call{number:05}", "type": "function", "function": called}
    return {
        "messages": [
            {"role": "user", "content": f"Do {number}."},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": f"r{number}"},
            {"role": "assistant", "content": f"It is {number}."},
        ],
        "tools": [
            {"type": "function", "function": function},
            {"type": "function", "function": {"name": "g"}},
        ],
    }


@st.composite
def changed(draw: st.DrawFn, number: int) -> dict[str, Any]:
    """Such a record with one change in its tools or its call."""
    record = new(number)
    function = record["messages"][1]["tool_calls"][0]["function"]
    arguments, quoted = function["arguments"], isinstance(function["arguments"], str)
    function["arguments"] = json.loads(arguments) if quoted else arguments
    where: Any = draw(st.sampled_from([record["tools"], function, function["arguments"]]))
    path = draw(st.sampled_from(parts(where)))
    _change(draw, *path)
    if draw(st.integers(0, 9)) == 0:
        name = draw(st.sampled_from(["", f"get.f_{number}"]))
        record["tools"] = [
            {"type": "function", "function": {"name": n}} for n in (name, f"get.f_{number}")
        ]
    if draw(st.integers(0, 3)) == 0:
        record["tools"] = json.dumps(record["tools"])
    if quoted and isinstance(function.get("arguments"), dict):
        text = json.dumps(function["arguments"], ensure_ascii=draw(st.booleans()))
        twice = draw(st.integers(0, 3)) == 0
        function["arguments"] = text.replace("{", '{"n": 1, ', 1) if twice else text
    return record


def _change(draw: st.DrawFn, where: Any, key: Any) -> None:
    how = draw(st.sampled_from(["value", "value", "none", "twice", "key", "more"]))
    if how == "value":
        where[key] = draw(VALUES)
    elif how == "none":
        del where[key]
    elif isinstance(where, list):
        where.insert(key, where[key] if how == "twice" else draw(VALUES))
    elif how == "key":
        where[draw(WORDS)] = where.pop(key)
    else:
        where[draw(KEYS)] = draw(VALUES)


def lines(found: list[dict[str, Any]]) -> list[bytes]:
    return [json.dumps(record, ensure_ascii=number % 2 > 0).encode() for number, record in enumerate(found)]  # fmt: skip


@pytest.mark.parametrize("name", WITH_TOOLS)
@settings(max_examples=examples(80))
@given(data=st.data())
def test_fast_paths_say_what_the_others_say(name: str, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, 99), min_size=2, max_size=4, unique=True))
    given = lines([new(1), new(3), *(data.draw(changed(number)) for number in numbers)])
    limits = data.draw(
        st.sampled_from([Limits(), Limits(), Limits(tools=frozenset({"get.f_1", "g"}))])
    )
    codes = data.draw(st.sampled_from([frozenset(RULES), BUT_LOST]))
    agree(CleanFilter(Checker(named(name), limits, codes)), given)
    quick, slow = Encoder(Options(dialect=name)), Encoder(Options(dialect=name))
    expected = [plain(slow.line(line)) for line in given]
    for _ in range(3):  # seen, learnt, known
        assert [plain(outcome) for outcome in quick.lines(given)] == expected


@given(data=st.data(), number=st.integers(0, 9))
def test_a_plain_schema_is_a_schema(data: st.DataObject, number: int) -> None:
    """What the types prove, the library proves."""
    schema = new(number)["tools"][0]["function"]["parameters"]
    assert is_plain(schema)
    for _ in range(4):
        made = json.loads(json.dumps(schema))
        _change(data.draw, *data.draw(st.sampled_from(parts(made))))
        if is_plain(made):
            jsonschema.Draft202012Validator.check_schema(made)


@pytest.mark.parametrize("takes", [plain_tools, signed_tools])
@given(data=st.data(), many=st.sampled_from([1, 25]))
def test_what_is_proved_to_fit_fits(
    takes: Callable[[bytes], Definitions | None], data: st.DataObject, many: int
) -> None:
    """No way of proving arguments takes any that the library finds fault with."""
    made = json.loads(json.dumps(new(3)))
    tool, given = made["tools"][0], made["messages"][1]["tool_calls"][0]["function"]
    schema, arguments = tool["function"]["parameters"], json.loads(given["arguments"])
    if takes is signed_tools:
        tool["function"] = told(3) | {"name": given["name"]}
        schema = tool["function"]["parameters"]
        arguments = {"q3": "x", "c": "w", "n": 2, "i": 5, "o": {"a": True}, "l": [[{"a": False}]]}
    for _ in range(data.draw(st.integers(0, 2))):
        _change(data.draw, *data.draw(st.sampled_from(parts(schema))))
    for _ in range(data.draw(st.integers(0, 2))):
        _change(data.draw, *data.draw(st.sampled_from(parts(arguments))))
    raw = json.dumps([tool]).encode()
    plain = takes(raw)
    fitting = Fitting(raw, {} if plain is None else plain[1])
    with contextlib.suppress(SchemaError):
        if fitting.proves([given["name"]] * many, [arguments] * many):
            assert misfits(arguments, schema) == []
        else:
            assert misfits(arguments, schema)


@pytest.mark.parametrize("name", [*WITH_TOOLS, str(ROOT / "examples/mistral_v11")])
def test_arguments_are_held_to_the_tools_of_their_record(name: str) -> None:
    """In records and texts of each format, at the value where the record has it."""
    dialect = named(name)
    record = new(1)
    record["messages"][1]["tool_calls"][0]["function"]["arguments"]["l"] = "none"
    episode, found = dialect.check(record)
    found = [finding for finding in found if finding.code != "MYP360"]
    assert [finding.code for finding in found] == ["MYP353"]
    assert found[0].pointer == "/messages/1/tool_calls/0/function/arguments/l"
    assert episode is not None
    assert dialect.validate(episode)[0].code == "MYP353"
    again, _ = dialect.parse(dialect.serialize(episode))
    assert again is not None
    assert "MYP353" in {finding.code for finding in dialect.validate(again)}
    prover = CleanFilter(Checker(dialect, codes=BUT_LOST))
    fine = lines([new(2), new(4)])
    assert prover.doubtful([*fine, json.dumps(record).encode()] * 2) == [2, 5]


ODD = st.sampled_from(
    [
        "a", "City", "x_1", "b.c", "d-e", "", " ", "a b", "é", "\n", "a\n", "\na", "a\n\nb", "a\r\nb", "x\u2028y", "x\u0085y",
        "a: string,", "a\nb: string,", "a\n// b", "a\n//", "Examples:", "x\n// Examples:", '- "x"', "x | y", "[]", "a\n}", "}",
        "{", "{\n", "a\n{\n", "a\n | string", "default: 1", "x // default: 1", '"', 'a" | "b', '"a"', "a,", "a?", "a:", "type f = () => any;",
        "} // namespace functions", "\n} // namespace functions", "=> any;", "string", "null", "\\", "\\n: ", "true", "1", "-0", "1e5",
    ]
)  # fmt: skip


def told(number: int) -> dict[str, Any]:
    """A definition, which the types of plain_signatures.py take."""
    inner = {"type": "object", "title": "T", "description": "o", "properties": {"a": {"type": "boolean", "default": True}}}  # fmt: skip
    given = {
        f"q{number}": {"type": "string", "description": f"Number {number}:\n it.", "default": "x"},
        "c": {"type": "string", "title": "C", "description": "c", "enum": ["v", "w"], "default": "v"},
        "n": {"type": "number", "minimum": 1.5, "default": 1e-5},
        "i": {"type": "integer", "description": "i", "default": number, "maximum": 100},
        "o": inner | {"required": ["a"]},
        "l": {"type": "array", "items": {"type": "array", "items": inner, "minItems": 0}},
    }  # fmt: skip
    parameters = {"type": "object", "description": "p", "properties": given, "required": ["n", "c"]}
    return {
        "name": f"get.f_{number}",
        "description": "It is.\n\nOr not.",
        "parameters": parameters,
    }


@settings(max_examples=examples(150))
@given(data=st.data(), number=st.integers(-3, 9))
def test_signatures_that_are_proved_are_read(data: st.DataObject, number: int) -> None:
    """What types and one search prove, reading proves; and nothing is said that needs more signs."""
    assert proved([told(number)])
    for _ in range(6):
        made = json.loads(json.dumps([told(number), {"name": "g"}]))
        for _ in range(data.draw(st.integers(1, 3))):
            where, key = data.draw(st.sampled_from(parts(made)))
            how = data.draw(st.sampled_from(["value", "value", "none", "key", "more"]))
            how = "value" if where is made and how == "none" else how
            if how == "none":
                del where[key]
            elif isinstance(where, list) or how == "value":
                where[key] = data.draw(ODD | ODD | SCALARS)
            elif how == "key":
                where[data.draw(ODD)] = where.pop(key)
            else:
                keys = ["title", "default", "description", "enum", "nullable", "oneOf", "examples"]
                where[data.draw(st.sampled_from(keys))] = data.draw(ODD | st.lists(ODD, max_size=2))
        if proved(made):
            text = write_signatures(made)
            assert write_signatures(read_signatures(text)) == text
            assert plain_tools(json.dumps(made).encode()) is not None
            assert set(text) <= SIGNS | set("".join(strings_of([made])))


IN_TAGS = ODD | st.sampled_from(
    [
        "<", "<a>", "</name>", "</name>\n<x>", "</description>\n</parameter>", "\n</function>", "<parameters>", "None", "False", "0x1",
        "['a']", "['a', {[]: 1}]", "[1]", '{"a": 1}', "5", "5.0", "-1e5", "a ", "\ta", "\xa0a", "a\xa0", "# Tools", "parameter",
    ]
)  # fmt: skip


def whole(number: int) -> dict[str, Any]:
    """A definition of which nothing is lost as tags."""
    made = told(number)
    made["parameters"]["properties"]["n"]["default"] = 0.5  # 1e-05 comes back as a text
    return made


@settings(max_examples=examples(150))
@given(data=st.data(), number=st.integers(-3, 9))
def test_tags_that_are_proved_are_read(data: st.DataObject, number: int) -> None:
    """What types and the lack of one sign prove, reading proves; whole ones come back whole."""
    literals = re.compile(r"(?!)")
    assert whole_tools(json.dumps([whole(number), {"name": "g"}]).encode()) is not None
    for _ in range(6):
        made = json.loads(json.dumps([whole(number), {"name": "g"}]))
        for _ in range(data.draw(st.integers(1, 3))):
            where, key = data.draw(st.sampled_from(parts(made)))
            how = data.draw(st.sampled_from(["value", "value", "none", "key", "more"]))
            how = "value" if where is made and how == "none" else how
            if how == "none":
                del where[key]
            elif isinstance(where, list) or how == "value":
                where[key] = data.draw(IN_TAGS | IN_TAGS | SCALARS)
            elif how == "key":
                where[data.draw(IN_TAGS)] = where.pop(key)
            else:
                keys = ["title", "default", "description", "enum", "nullable", "format", "examples"]
                where[data.draw(st.sampled_from(keys))] = data.draw(
                    IN_TAGS | SCALARS | st.lists(IN_TAGS, max_size=2)
                )
        raw = json.dumps(made).encode()
        kept, strings = whole_tools(raw), "".join(strings_of([made]))
        assert kept is None or plain_tools(raw) is not None
        if plain_tools(raw) is None or "<" in strings:
            continue
        text = write_tool_tags(made, literals)
        read = read_tool_tags(text)
        assert set(text) <= TAG_SIGNS | {"<"} | set(strings)
        found = re.findall(r"<(?:/?\w+>)?", text)
        assert {*found} <= {*elements()}
        if kept is not None:
            assert lost(made, read) == []


def proved(tools: list[dict[str, Any]]) -> bool:
    found = signed_tools(json.dumps(tools).encode())
    return found is not None and readable(written(found[0]))


def test_harmony_proves_new_tools_without_their_text() -> None:
    """Speed must not die in silence; and what the types do not prove is written, not refused."""
    prover = CleanFilter(Checker(mypt_spec.dialect("harmony"), codes=BUT_LOST))
    found = [new(number) | {"tools": [told(number), {"name": "g"}]} for number in range(8)]
    for record in found:
        called = {"name": record["tools"][0]["name"], "arguments": {"n": 2, "c": "v"}}
        record["messages"][1]["tool_calls"][0]["function"] = called
    assert prover.doubtful(lines(found[:4])) == []
    with mock.patch.object(type(prover.checker.dialect.adapter), "tools_text", side_effect=AssertionError):  # fmt: skip
        assert prover.doubtful(lines(found[4:7])) == []
    found[7]["tools"][0]["description"] = "C# has\nit: both."
    assert prover.doubtful(lines([*found[4:7], found[7]])) == []


@pytest.mark.parametrize("codes", [BUT_LOST, frozenset(RULES)])
def test_new_tools_as_tags_are_proved_without_their_text(codes: frozenset[str]) -> None:
    """Speed must not die in silence; and what the types do not prove is written, not refused."""
    prover = CleanFilter(Checker(named(CODER), codes=codes))
    found = [new(number) | {"tools": [whole(number), {"name": "g"}]} for number in range(8)]
    for record in found:
        called = {"name": record["tools"][0]["name"], "arguments": {"n": 2, "c": "v"}}
        record["messages"][1]["tool_calls"][0]["function"] = called
    assert prover.doubtful(lines(found[:4])) == []
    with mock.patch.object(type(prover.checker.dialect.adapter), "tools_text", side_effect=AssertionError):  # fmt: skip
        assert prover.doubtful(lines(found[4:7])) == []
    found[7]["tools"][0]["description"] = "Less: a < b."
    assert prover.doubtful(lines([*found[4:7], found[7]])) == []


@pytest.mark.parametrize("name", WITH_TOOLS)
def test_they_take_the_fast_paths(name: str) -> None:
    """Speed must not die in silence: after few records, none is checked or encoded as a whole."""
    prover = CleanFilter(Checker(named(name), codes=BUT_LOST))
    first, then = lines([new(n) for n in range(6)]), lines([new(n) for n in range(6, 12)])
    assert prover.doubtful(first) == []
    assert prover.by_adapter is not None
    with mock.patch.object(prover.by_adapter, "judge", side_effect=AssertionError):
        assert prover.doubtful(then) == []
    encoder, slow = Encoder(Options(dialect=name)), Encoder(Options(dialect=name))
    for _ in range(2):
        encoder.lines(first)
    kept: list[Any] = []
    assert encoder.clean_filter.doubtful(then, kept) == []
    assert encoder.chats is not None
    assert all(encoder.chats.find(one[0], line) for one, line in zip(kept, then, strict=True))
    assert [plain(o) for o in encoder.lines(then)] == [plain(slow.line(line)) for line in then]


def test_tools_are_decoded_with_their_lines_while_all_are_new() -> None:
    """And every few blocks not, to see whether they come again: known ones cost less as JSON."""
    prover = CleanFilter(Checker(named("qwen3")))
    assert prover.by_adapter is not None
    outlines: Any = prover.by_adapter.outlines
    modes = []
    for number in range(0, 48, 2):
        modes.append(outlines.tool is not None)
        assert prover.doubtful(lines([new(number % 44), new(number % 44 + 1)])) == []
    assert modes == ([False] + [True] * 8) * 2 + [False] + [True] * 5
    for _ in range(20):
        prover.doubtful(lines([new(1)]))
    assert outlines.tool is None


def test_tools_that_come_twice_are_not_plain() -> None:
    tool = b'{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}'
    assert plain_tools(b"[" + tool + b"]") is not None
    assert plain_tools(b"[" + tool + b"," + tool + b"]") is None
    assert plain_tools(tool) is None
    assert plain_tools(b"[]") is None
