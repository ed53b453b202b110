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
from random import Random
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
from mypt_lint.fast.clean_tools import Declared
from mypt_lint.fast.plain_tool_tags import SIGNS as TAG_SIGNS
from mypt_lint.fast.plain_tool_tags import elements, whole_tools
from mypt_spec import Dialect, Limits
from mypt_spec.bodies.json_schema import SchemaError, misfits, undeclared
from mypt_spec.bodies.plain_schema import Definitions, plain_tools, written
from mypt_spec.bodies.plain_signatures import SIGNS, readable, signed_tools
from mypt_spec.bodies.read_signatures import read_signatures
from mypt_spec.bodies.signatures import lost, write_signatures
from mypt_spec.bodies.tool_tags import read_tool_tags, write_tool_tags
from mypt_spec.findings import RULES
from mypt_train.data.encode_line import Encoder
from mypt_train.data.formats.options import Options
from tests.support.build import assistant, call, chat, tool, user
from tests.support.examples import examples
from tests.support.fast_paths import assert_same_ids, assert_sound, facts, parts
from tests.support.maker import drawn

ROOT = Path(__file__).resolve().parents[2]
BUT_LOST = frozenset(RULES) - {"MYP360"}  # the text of harmony says less than schemas do
CODER = "qwen3-coder"  # calls are tags, and so are tools
WITH_TOOLS = ("qwen3", "harmony", "mistral", "mistral-v13", "llama3", CODER)
WORDS: list[Any] = [
    "a", "City", "x_1", "b.c", "d-e", "_f", "é", "a b", "", " ", "\n", 'say "no"', "C:\\", "#", "# T",
    "</s>", "<|im_end|>", "<|im_ende|>", "[INST]", "[/INST]", "<tool_call>", "1", "true", "日本",
    "</parameter>", "<parameter=a>", "\n</function>", "<function>", "</name>", "5", "null", "// default: 1", "type f = ", "# Tools", "\u2028", "x" * 64,
]  # fmt: skip
NUMBERS = [0, -7, 2**53, 2**60, 10**30, 1.0, -0.5, 1e30, 1e-7, True, None]
KEYS = ["pattern", "title", "format", "additionalProperties", "anyOf", "x", "strict"]
MORE_KEYS = ["title", "default", "description", "enum", "nullable", "oneOf", "format", "examples"]


def value(random: Random, words: list[Any], depth: int = 2) -> Any:
    """Returns a word, a number, or a few of these together."""
    kind = random.randrange(6 if depth else 4)
    if kind < 4:
        return random.choice(words if kind < 2 else NUMBERS)
    several = [value(random, words, depth - 1) for _ in range(random.randrange(4))]
    return several if kind == 4 else {random.choice(words): one for one in several}


def alter(random: Random, made: Any, words: list[Any] = WORDS, keys: list[str] = KEYS) -> None:
    """Changes, drops, doubles, renames or adds one value somewhere in a JSON value."""
    where, key = random.choice(parts(made))
    how = random.choice(("value", "value", "none", "twice", "key", "more"))
    if how == "none" and not (where is made and len(made) == 1):
        del where[key]
    elif how in ("value", "none"):
        where[key] = value(random, words)
    elif isinstance(where, list):
        where.insert(key, where[key] if how == "twice" else value(random, words))
    elif how == "key":
        where[random.choice(words)] = where.pop(key)
    else:
        where[random.choice(keys)] = value(random, words)


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
    asked = call(function["name"], arguments, id=f"call{number:05}")
    return chat(
        user(f"Do {number}."), {"role": "assistant", "tool_calls": [asked]},
        tool(f"r{number}", tool_call_id=asked["id"]), assistant(f"It is {number}."),
        tools=[{"type": "function", "function": function}, {"type": "function", "function": {"name": "g"}}],
    )  # fmt: skip


def changed(random: Random, number: int) -> dict[str, Any]:
    """Returns such a record with one change in its tools or its call."""
    record = new(number)
    function = record["messages"][1]["tool_calls"][0]["function"]
    arguments, quoted = function["arguments"], isinstance(function["arguments"], str)
    function["arguments"] = json.loads(arguments) if quoted else arguments
    alter(random, random.choice([record["tools"], function, function["arguments"]]))
    if random.randrange(10) == 9:
        names = (random.choice(["", f"get.f_{number}"]), f"get.f_{number}")
        record["tools"] = [{"type": "function", "function": {"name": name}} for name in names]
    if random.randrange(4) == 3:
        record["tools"] = json.dumps(record["tools"])
    if quoted and isinstance(function.get("arguments"), dict):
        text = json.dumps(function["arguments"], ensure_ascii=random.choice((True, False)))
        twice = random.randrange(4) == 3
        function["arguments"] = text.replace("{", '{"n": 1, ', 1) if twice else text
    return record


def lines(records: list[dict[str, Any]]) -> list[bytes]:
    return [json.dumps(record, ensure_ascii=number % 2 > 0).encode() for number, record in enumerate(records)]  # fmt: skip


def several(random: Random) -> list[bytes]:
    """Returns lines of two records, and of two to four with a change."""
    numbers = random.sample(range(100), random.randint(2, 4))
    return lines([new(1), new(3), *(changed(random, number) for number in numbers)])


@pytest.mark.parametrize("name", WITH_TOOLS)
@settings(max_examples=examples(80))
@given(
    drawn(several),
    st.sampled_from([Limits(), Limits(), Limits(tools=frozenset({"get.f_1", "g"}))]),
    st.sampled_from([frozenset(RULES), BUT_LOST]),
)
def test_fast_paths_say_what_the_others_say(
    name: str, raw: list[bytes], limits: Limits, codes: frozenset[str]
) -> None:
    assert_sound(CleanFilter(Checker(named(name), limits, codes)), raw)
    assert_same_ids(Encoder(Options(dialect=name)), Encoder(Options(dialect=name)), raw)


@settings(max_examples=examples(160))
@given(st.integers(0, 9), st.data())
def test_a_plain_schema_is_a_schema(number: int, data: st.DataObject) -> None:
    """What the types prove, the library proves."""
    definition = {"name": "f", "parameters": new(number)["tools"][0]["function"]["parameters"]}

    def is_plain() -> bool:
        raw = json.dumps([definition]).encode()
        proofs = plain_tools(raw)
        return proofs is not None and written(proofs[0]).count(b'"') == raw.count(b'"')

    assert is_plain()
    data.draw(drawn(lambda random: alter(random, definition["parameters"])))
    if is_plain():
        jsonschema.Draft202012Validator.check_schema(definition["parameters"])


@pytest.mark.parametrize("takes", [plain_tools, signed_tools])
@settings(max_examples=examples(160))
@given(st.data(), st.sampled_from([1, 25]))
def test_what_is_proved_to_fit_fits(
    takes: Callable[[bytes], Definitions | None], data: st.DataObject, many: int
) -> None:
    """No way of proving arguments takes any that the library finds fault with."""
    record = new(3)
    definition, asked = record["tools"][0], record["messages"][1]["tool_calls"][0]["function"]
    arguments = json.loads(asked["arguments"])
    if takes is signed_tools:
        definition["function"] = told(3) | {"name": asked["name"]}
        arguments = {"q3": "x", "c": "w", "n": 2, "i": 5, "o": {"a": True}, "l": [[{"a": False}]]}
    schema = definition["function"]["parameters"]
    for made in (schema, arguments):
        for _ in range(data.draw(st.integers(0, 2))):
            data.draw(drawn(lambda random, made=made: alter(random, made) if made else None))
    raw = json.dumps([definition]).encode()
    proofs = takes(raw)
    declared = Declared(raw, {}) if proofs is None else Declared(*proofs)
    with contextlib.suppress(SchemaError):
        fits = declared.fit(asked["name"], [arguments] * many)
        assert fits == (not misfits(arguments, schema) and not undeclared(arguments, schema))


@pytest.mark.parametrize("name", [*WITH_TOOLS, "mistral-v11"])
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


ODD: list[Any] = [
    "a", "City", "x_1", "b.c", "d-e", "", " ", "a b", "é", "\n", "a\n", "\na", "a\n\nb", "a\r\nb", "x\u2028y", "x\u0085y",
    "a: string,", "a\nb: string,", "a\n// b", "a\n//", "Examples:", "x\n// Examples:", '- "x"', "x | y", "[]", "a\n}", "}",
    "{", "{\n", "a\n{\n", "a\n | string", "default: 1", "x // default: 1", '"', 'a" | "b', '"a"', "a,", "a?", "a:", "type f = () => any;",
    "} // namespace functions", "\n} // namespace functions", "=> any;", "string", "null", "\\", "\\n: ", "true", "1", "-0", "1e5",
]  # fmt: skip


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


def altered(random: Random, made: list[Any], words: list[Any]) -> list[Any]:
    """Returns definitions with one to three changes."""
    for _ in range(random.randint(1, 3)):
        alter(random, made, words, MORE_KEYS)
    return made


@settings(max_examples=examples(900))
@given(st.integers(-3, 9), st.data())
def test_signatures_that_are_proved_are_read(number: int, data: st.DataObject) -> None:
    """What types and one search prove, reading proves; and nothing is said that needs more signs."""
    assert is_signed([told(number)])
    made = data.draw(drawn(lambda random: altered(random, [told(number), {"name": "g"}], ODD)))
    if is_signed(made):
        text = write_signatures(made)
        assert write_signatures(read_signatures(text)) == text
        assert plain_tools(json.dumps(made).encode()) is not None
        assert set(text) <= SIGNS | set("".join(strings_of([made])))


IN_TAGS = [
    *ODD, "<", "<a>", "</name>", "</name>\n<x>", "</description>\n</parameter>", "\n</function>", "<parameters>", "None", "False", "0x1",
    "['a']", "['a', {[]: 1}]", "[1]", '{"a": 1}', "5", "5.0", "-1e5", "a ", "\ta", "\xa0a", "a\xa0", "# Tools", "parameter",
]  # fmt: skip


def whole(number: int) -> dict[str, Any]:
    """A definition of which nothing is lost as tags."""
    made = told(number)
    made["parameters"]["properties"]["n"]["default"] = 0.5  # 1e-05 comes back as a text
    return made


@settings(max_examples=examples(900))
@given(st.integers(-3, 9), st.data())
def test_tags_that_are_proved_are_read(number: int, data: st.DataObject) -> None:
    """What types and the lack of one sign prove, reading proves; whole ones come back whole."""
    assert whole_tools(json.dumps([whole(number), {"name": "g"}]).encode()) is not None
    made = data.draw(drawn(lambda random: altered(random, [whole(number), {"name": "g"}], IN_TAGS)))
    raw = json.dumps(made).encode()
    proofs, strings = whole_tools(raw), "".join(strings_of([made]))
    assert proofs is None or plain_tools(raw) is not None
    if plain_tools(raw) is None or "<" in strings:
        return
    text = write_tool_tags(made, re.compile(r"(?!)"))
    assert set(text) <= TAG_SIGNS | {"<"} | set(strings)
    assert {*re.findall(r"<(?:/?\w+>)?", text)} <= {*elements()}
    if proofs is not None:
        assert lost(made, read_tool_tags(text)) == []


def is_signed(tools: list[dict[str, Any]]) -> bool:
    proofs = signed_tools(json.dumps(tools).encode())
    return proofs is not None and readable(written(proofs[0]))


@pytest.mark.parametrize(
    ("name", "codes", "definition", "odd"),
    [
        ("harmony", BUT_LOST, told, "C# has\nit: both."),
        (CODER, BUT_LOST, whole, "Less: a < b."),
        (CODER, frozenset(RULES), whole, "Less: a < b."),
    ],
)
def test_new_tools_are_proved_without_their_text(
    name: str, codes: frozenset[str], definition: Callable[[int], Any], odd: str
) -> None:
    """Speed must not die in silence; and what the types do not prove is written, not refused."""
    prover = CleanFilter(Checker(named(name), codes=codes))
    records = [new(number) | {"tools": [definition(number), {"name": "g"}]} for number in range(8)]
    for record in records:
        asked = {"name": record["tools"][0]["name"], "arguments": {"n": 2, "c": "v"}}
        record["messages"][1]["tool_calls"][0]["function"] = asked
    assert prover.doubtful(lines(records[:4])) == []
    assert prover.by_adapter is not None
    with mock.patch.object(type(prover.by_adapter.splitter), "tools_text", side_effect=AssertionError):  # fmt: skip
        assert prover.doubtful(lines(records[4:7])) == []
    records[7]["tools"][0]["description"] = odd
    assert prover.doubtful(lines(records[4:])) == []


@pytest.mark.parametrize("name", WITH_TOOLS)
def test_they_take_the_fast_paths(name: str) -> None:
    """Speed must not die in silence: after few records, none is checked or encoded as a whole."""
    prover = CleanFilter(Checker(named(name), codes=BUT_LOST))
    first, then = lines([new(n) for n in range(6)]), lines([new(n) for n in range(6, 12)])
    assert prover.doubtful(first) == []
    assert prover.by_adapter is not None
    with mock.patch.object(prover.by_adapter, "_judge", side_effect=AssertionError):
        assert prover.doubtful(then) == []
    encoder, slow = Encoder(Options(dialect=name)), Encoder(Options(dialect=name))
    for _ in range(2):
        encoder.lines(first)
    clean: list[Any] = []
    assert encoder.clean_filter.doubtful(then, clean) == []
    assert encoder.chats is not None
    assert all(encoder.chats.find(one, line) for one, line in zip(clean, then, strict=True))
    assert [facts(o) for o in encoder.lines(then)] == [facts(slow.line(line)) for line in then]


def test_tools_that_come_twice_are_not_plain() -> None:
    tool = b'{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}'
    assert plain_tools(b"[" + tool + b"]") is not None
    assert plain_tools(b"[" + tool + b"," + tool + b"]") is None
    assert plain_tools(tool) is None
    assert plain_tools(b"[]") is None
