"""Values against JSON Schemas: limits that hold, findings that say the true thing, and the language itself."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_cli.errors import UsageError
from mypt_lint.settings.config import read
from mypt_spec.bodies.json_schema import MAX_MISFITS, SchemaError, check_schema, misfits
from tests.support.build import assistant, call, chat, tool, user
from tests.support.examples import examples

D = mypt_spec.dialect("usf-omega")
USER, ANSWER = user("u"), assistant("{}")
LIBRARY = {
    "2020-12": jsonschema.Draft202012Validator,
    "2019-09": jsonschema.Draft201909Validator,
    "draft-07": jsonschema.Draft7Validator,
}


def large(properties: int) -> dict[str, Any]:
    """A schema as of a large tool, which is not so plain that its types prove it."""
    numbered = {"type": "integer", "description": "how many", "minimum": 1}
    chosen = {"type": "string", "description": "which", "enum": ["a", "b"]}
    fields = {f"p{i}": numbered if i % 2 else chosen for i in range(properties)}
    return {"type": "object", "properties": fields, "required": ["p1"], "not": {"maxProperties": 0}}


def findings(record: dict[str, Any]) -> list[tuple[str, str]]:
    episode, of_reading = D.read(record)
    assert episode is not None
    return [(f.code, f.message) for f in of_reading + D.validate(episode)]


# --- what a limit says


def test_a_schema_that_takes_too_long_is_not_called_wrong() -> None:
    schema = large(60_000)
    with pytest.raises(SchemaError, match="too many steps") as caught:
        check_schema(schema)
    assert caught.value.unchecked
    (finding,) = findings(chat(USER, ANSWER, response_schema=schema))
    assert finding == (
        "MYP128",
        "this schema was not checked: checking it takes too many steps",
    )


def test_a_schema_that_is_refused_for_its_size_is_not_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It took nine seconds, most of them to write and read it again."""
    schema = large(60_000)
    assert findings(chat(USER, ANSWER, response_schema={"type": "object"})) == []
    monkeypatch.setattr("mypt_spec.bodies.json_schema.json.dumps", None)
    monkeypatch.setattr("mypt_spec.bodies.json_schema.json.loads", None)
    with pytest.raises(SchemaError) as caught:
        check_schema(schema)
    assert caught.value.unchecked


def test_values_in_a_schema_are_no_parts_of_it() -> None:
    for word in ("enum", "examples"):
        assert misfits({"a": 1}, {word: [{"a": i} for i in range(60_000)]}) == []


def test_a_schema_that_nests_too_deep_is_not_called_wrong() -> None:
    deep = json.loads('{"not": ' * 150 + "{}" + "}" * 150)
    (finding,) = findings(chat(USER, ANSWER, response_schema=deep))
    assert finding == ("MYP128", "this schema was not checked: it nests too deep")


def test_the_time_of_all_schemas_is_not_said_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mypt_spec.bodies.json_schema._ALTOGETHER", -1.0)
    (finding, *_) = findings(chat(USER, ANSWER, response_schema={"type": "nothing"}))
    assert finding[1].startswith("this schema was not checked: those of this record take more than")


def test_a_schema_that_is_wrong_is_called_wrong() -> None:
    (finding,) = findings(chat(USER, ANSWER, response_schema={"type": "banana"}))
    assert finding[1].startswith("this is not a valid JSON Schema: 'banana' is not valid")


def test_settings_say_the_same(tmp_path: Any) -> None:
    (tmp_path / "s.json").write_text('{"not": ' * 150 + "{}" + "}" * 150)
    path = tmp_path / "mypt-lint.toml"
    path.write_text('[tools.t]\narguments = "s.json"\n')
    with pytest.raises(UsageError, match="arguments cannot be checked: it nests too deep"):
        read(str(path))


# --- limits that hold


def quick(value: Any, schema: Any) -> list[tuple[str, str]]:
    before = time.thread_time()
    try:
        return misfits(value, schema)
    finally:
        assert time.thread_time() - before < 15


def test_a_large_pattern_as_a_value_is_not_compiled() -> None:
    assert quick("(a|b)*" * 70_000, {"format": "regex"}) == []
    assert quick("(a|b)*", {"format": "regex"}) == []
    assert quick("(", {"format": "regex"}) != []
    assert quick("a" * 30_000, {"format": "email"}) != []


def test_unevaluated_properties_are_found_in_one_pass() -> None:
    value = {f"k{i}": "" for i in range(20_000)}
    schema: Any = {"unevaluatedProperties": {"type": "string"}}
    assert quick(value, schema) == []
    assert [at for at, _ in quick({**value, "x": 1}, schema)] == ["/x"]


def test_unevaluated_items_are_found_in_one_pass() -> None:
    schema: Any = {"contains": {"type": "string"}, "unevaluatedItems": False}
    assert [at for at, _ in quick([*["a"] * 20_000, 1], schema)] == [""]


def test_nested_unevaluated_properties_end() -> None:
    schema: Any = {"$defs": {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(25)}}  # fmt: skip
    schema |= {"$ref": "#/$defs/a0", "unevaluatedProperties": False}
    schema["$defs"]["a25"] = {"properties": {f"k{i}": True for i in range(2000)}}
    with pytest.raises(SchemaError, match="too many steps"):
        quick({f"k{i}": 1 for i in range(2000)}, schema)


def test_properties_by_pattern_count_as_evaluated() -> None:
    schema: Any = {"patternProperties": {"^x-": True}, "unevaluatedProperties": False}
    assert misfits({"x-a": 1}, schema) == []
    assert [message for _, message in misfits({"x-a": 1, "y": 2}, schema)] == [
        "'y' is a property that the schema does not have"
    ]
    assert quick({"a" * 40 + "b": 1}, {**schema, "patternProperties": {"^(a+)+$": {}}}) != []


def test_a_schema_of_thousands_of_properties_is_checked() -> None:
    before = time.thread_time()
    check_schema(large(3000))
    assert misfits({"p1": 1, "p2": "c"}, large(3000)) != []
    assert time.thread_time() - before < 15


def test_a_large_schema_is_read_once() -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": large(1500)}}]
    asked = {
        "role": "assistant",
        "tool_calls": [call("f", {"p1": 1}, id=f"c{i}") for i in range(12)],
    }
    results = [tool("r", tool_call_id=f"c{i}") for i in range(12)]
    assert findings(chat(USER, asked, *results, ANSWER, tools=tools)) == []


# --- the language: as the library understands it without our limits

WORDS = st.sampled_from(["a", "b", "c"])
SCALARS = st.sampled_from([0, 1, "x", True, None])


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "integer", ["string", "object"]]),
            "properties": st.dictionaries(WORDS, inner, max_size=2),
            "required": st.lists(WORDS, max_size=1),
            "additionalProperties": inner,
            "patternProperties": st.dictionaries(WORDS, inner, max_size=1),
            "dependentSchemas": st.dictionaries(WORDS, inner, max_size=1),
            "prefixItems": several,
            "items": inner,
            "contains": inner,
            "allOf": several,
            "anyOf": several,
            "oneOf": several,
            "$ref": st.sampled_from(["#/$defs/d"]),
            "unevaluatedProperties": inner,
            "unevaluatedItems": inner,
        },
    )


SCHEMAS = st.recursive(st.booleans() | st.just({"type": "integer"}), schemas, max_leaves=8)
VALUES = st.recursive(
    SCALARS,
    lambda v: st.lists(v, max_size=3) | st.dictionaries(WORDS, v, max_size=3),
    max_leaves=6,
)


@given(SCHEMAS, SCHEMAS.filter(lambda s: "$ref" not in json.dumps(s)), VALUES)
@settings(max_examples=examples(300))
def test_a_value_fits_as_it_does_for_the_library(schema: Any, there: Any, value: Any) -> None:
    if isinstance(schema, dict):
        whole = {**schema, "$defs": {"d": there}}
        fits = jsonschema.Draft202012Validator(whole).is_valid(value)
        assert (misfits(value, whole) == []) == fits


BROKEN = [
    {"type": "banana"}, {"properties": {"a": {"type": "strin"}}}, {"properties": {"a": 1}},
    {"required": "a"}, {"required": ["a", "a"]}, {"enum": 1}, {"minimum": "1"}, {"allOf": []},
    {"allOf": [{"not": 1}]}, {"$defs": {"a": {"items": 3}}}, {"definitions": {"a": {"pattern": 1}}},
    {"dependentRequired": {"a": 1}}, {"minLength": -1}, {"$id": 1}, {"$anchor": "!"}, {"title": 1},
    {"multipleOf": 0}, {"contentSchema": 1}, {"unevaluatedProperties": 1}, {"if": {"then": 1}}, 1,
    {"dependencies": {"a": 1}}, {"patternProperties": {"a": {"type": 1}}}, {"type": ["a", "a"]},
    {"description": [], "type": 1}, {"type": 1, "items": 1, "$ref": 1}, {"$recursiveRef": 1},
]  # fmt: skip


@pytest.mark.parametrize("version", LIBRARY)
def test_what_is_no_schema_is_so_for_the_reason_of_the_library(version: str) -> None:
    kind, refused = LIBRARY[version], 0
    mark = {"$schema": kind.META_SCHEMA["$schema"]}
    for broken in [*BROKEN, {"type": "string"}, large(3)]:
        schema: Any = broken | mark if isinstance(broken, dict) else broken
        errors = {
            "".join(f"/{step}" for step in e.absolute_path): e
            for e in kind(kind.META_SCHEMA).iter_errors(schema)
        }
        if not errors:
            check_schema(schema)
            continue
        refused += 1
        with pytest.raises(SchemaError) as caught:
            check_schema(schema)
        error = errors[caught.value.pointer]  # one of those that it has
        if error.validator not in {"uniqueItems", "pattern"}:  # in words of our own
            assert str(caught.value) == error.message
    assert refused > 15


NOWHERE = {
    "properties": {"a": {"$ref": "#/components/x"}, "b": {"type": "integer"}},
    "required": ["c"],
}


def test_a_reference_to_nowhere_matters_to_values_that_come_there() -> None:
    """Schemas that were cut out of larger documents have such references."""
    check_schema(NOWHERE)
    assert misfits({"c": 1}, NOWHERE) == []
    assert misfits({"b": "x"}, NOWHERE) == [
        ("", "'c' is a required property"),
        ("/b", "'x' is not of type 'integer'"),
    ]
    with pytest.raises(SchemaError, match="/components/x") as caught:
        misfits({"a": 1, "b": "x"}, NOWHERE)
    assert caught.value.in_use


HOSTILE: list[Any] = [
    ({"uniqueItems": True}, [2**70 + i for i in range(20_000)]),
    ({"items": {"anyOf": [{"type": "string"}] * 5000}}, [1] * 5000),
    ({"items": {"enum": [f"s{i}" for i in range(20_000)]}}, ["q"] * 5000),
    ({"dependentRequired": {f"p{i}": [f"q{i}" for i in range(100)] for i in range(1000)}}, {f"p{i}": 1 for i in range(1000)}),
    ({"pattern": "(a|b)*a(a|b){1000}c"}, "ab" * 500_000),
    ({"pattern": "(?=.*.*.*=.*)x(?!y)"}, "x" * 1_000_000),
    ({"allOf": [{"type": "integer"}] * 3000}, "x" * 10**6),
    ({"items": {"type": "string"}}, [1] * 10**6),
    ({"$defs": {f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(25)} | {"a25": {"type": "string"}}, "$ref": "#/$defs/a0"}, 1),
    ({"$defs": {f"a{i}": {"properties": {"x": {"$ref": f"#/$defs/a{i + 1}"}}, "allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(30)}}, {}),
    ({"$anchor": "x", "allOf": [{"$ref": "#x"}, {"$ref": "#x"}]}, 1),
    ({"const": "\ud800"}, "\ud800"), ({"type": "string"}, "\ud800"), ({1: 2}, {3: 4}),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_work_and_memory_are_bounded(number: int) -> None:
    schema, value = HOSTILE[number]
    with contextlib.suppress(SchemaError):
        assert len(quick(value, schema)) <= MAX_MISFITS


def test_an_address_is_what_has_an_at_sign() -> None:
    """As the decoder writes it: of the many rules for addresses, none is for the judge alone."""
    address = {"type": "string", "format": "email"}
    assert misfits("a" * 80 + "@b", address) == []
    assert misfits("a b", address) == [("", "'a b' is not a 'email'")]
