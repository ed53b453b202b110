"""Lists of tools as they are found: annotations, keywords of other tools, forms of other formats,
and tools that cannot be read.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mypt_infer.decode import Decoder, SchemaFault, SchemaWarning, declare
from mypt_infer.decode.base.schemas import plain
from mypt_infer.decode.base.tools import ToolSpec
from mypt_spec.bodies.json_schema import misfits
from tests.support.decoding import requiring, takes_body


def parameters(**properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = requiring(**properties)["function"]["parameters"]
    return schema


def takes(of: Decoder, **call: Any) -> bool:
    """Whether a whole call can be written."""
    return takes_body(of, json.dumps(call))


@pytest.mark.parametrize("engine", ["table", "auto"])
def test_annotations_say_nothing(engine: str) -> None:
    """No warning: JSON Schema itself defines that they bind no value."""
    notes = {"$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://example.com/a"}
    texts = {"$comment": "so", "title": "A", "description": "a"}
    notes |= {**texts, "default": 3, "examples": [1], "deprecated": True}
    schema = {**parameters(a={"type": "integer", **notes}), **notes}
    of = Decoder("mypt", [{"name": "t", "parameters": schema}], engine=engine)
    assert of.engine.tables_only
    assert takes(of, name="t", a=3)
    assert not takes(of, name="t", a="3")


def test_unknown_keywords_are_named_once_a_list() -> None:
    tools = [
        requiring("one", a={"type": "string", "optional": True, "format": "int99"}),
        requiring("two", a={"type": "string", "optional": False, "x-order": 1}),
    ]
    with pytest.warns(SchemaWarning) as caught:
        of = Decoder("mypt", tools)
    assert len(caught) == 1
    assert "format: int99, optional, x-order" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert takes(of, name="two", a="x")
    with pytest.raises(SchemaFault, match=r"tool 'one': .*'format: int99', 'optional'"):
        Decoder("mypt", tools, strict=True)


def test_an_argument_may_be_called_as_a_keyword() -> None:
    """`title` is an annotation of a schema, and a fine name of an argument."""
    of = Decoder(
        "mypt", [requiring(title={"type": "string"}, optional={"type": "null"})], strict=True
    )
    assert takes(of, name="t", title="x", optional=None)


def test_keywords_that_bind_are_never_dropped() -> None:
    with pytest.raises(SchemaFault, match="'uniqueItems'"):
        Decoder("mypt", [requiring(a={"type": "array", "items": {}, "uniqueItems": True})])


@pytest.mark.parametrize("key", ["parameters", "inputSchema", "input_schema"])
def test_forms_of_mcp_and_anthropic(key: str) -> None:
    schema = parameters(a={"type": "integer"})
    of = Decoder("mypt", [{"name": "t", "description": None, key: schema}])
    assert takes(of, name="t", a=1)
    assert not takes(of, name="t")


def test_two_schemas_of_one_requiring() -> None:
    schema = parameters(a={"type": "integer"})
    same = {"name": "t", "parameters": schema, "inputSchema": dict(schema)}
    assert declare([same])[0].schema == schema
    with pytest.raises(SchemaFault, match=r"tool 't': parameters and inputSchema differ"):
        declare([{**same, "inputSchema": {"type": "object"}}])


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"properties": None}, "/properties: expected an object of schemas, got null"),
        ({"properties": []}, "/properties: expected an object of schemas, got an array"),
        ({"properties": {"a": None}}, "/properties/a: expected a schema, an object; got null"),
        ({"required": [{}]}, "/required: expected a list of names of arguments, got .{}."),
        ({"properties": {"a": {"required": True}}}, "/properties/a/required: expected a list"),
        ({"properties": {"a": {"type": "strin"}}}, "/properties/a/type: 'strin' is not a type"),
        ({"properties": {"a": {"type": [[]]}}}, "/type: .. is not a type"),
        ({"properties": {"a": {"enum": "ab"}}}, "/properties/a/enum: expected a list of values"),
        ({"properties": {"a": {"anyOf": {}}}}, "/properties/a/anyOf: expected a list of schemas"),
        ({"properties": {"a": {"minimum": "3"}}}, "/minimum: expected a number, got '3'"),
        ({"properties": {"a": {"$ref": 3}}}, "/a/.ref: expected a reference"),
        ({"type": "array"}, "/type: the arguments of a tool are an object"),
        ({"type": "object", "enum": [{"a": 1}]}, "/enum: no engine supports a choice of whole"),
        ({"const": {"a": 1}}, "/const: no engine supports a choice of whole arguments"),
        ({"type": "string", "enum": ["a"]}, "/enum: no engine supports a choice of whole arg"),
        ([], "/parameters: expected a JSON Schema of an object, got list"),
    ],
)
@pytest.mark.parametrize("engine", ["table", "llguidance", "auto"])
def test_what_is_no_schema_is_said(schema: Any, says: str, engine: str) -> None:
    if engine != "table":
        pytest.importorskip("llguidance")
    good = requiring("good", a={"type": "string", "pattern": "^a"})
    with pytest.raises(SchemaFault, match=f"tool 'bad' at {says}|tool 'bad' at .*{says}"):
        Decoder("mypt", [good, {"name": "bad", "parameters": schema}], engine=engine)


def test_the_tool_that_no_engine_reads_is_named() -> None:
    """Not the first that tables refuse: llguidance reads that one."""
    pytest.importorskip("llguidance")
    good = requiring("good", a={"type": "string", "pattern": "^a"})
    bad = requiring("bad", a={"type": "array", "items": {"type": "string"}, "uniqueItems": True})
    with pytest.raises(SchemaFault, match=r"tool 'bad': .*uniqueItems") as caught:
        Decoder("mypt", [good, bad], engine="auto")
    assert "good" not in str(caught.value)


@pytest.mark.parametrize("engine", ["table", "llguidance", "auto"])
def test_tools_that_cannot_be_read_are_left_out(engine: str) -> None:
    if engine != "table":
        pytest.importorskip("llguidance")
    unique = requiring("unique", a={"type": "array", "items": {"type": "string"}, "uniqueItems": True})  # fmt: skip
    null = {"name": "null", "parameters": {"properties": None}}
    good, again = requiring("good", a={"type": "integer"}), requiring("good", a={"type": "string"})
    last = requiring("last", a={"type": "null"})
    tools = [unique, null, good, {"name": ""}, again, last]
    of = Decoder("mypt", tools, engine=engine, skip_unreadable=True)
    assert [t.name for t in of.tools] == ["good", "last"]
    assert [s.name for s in of.skipped] == ["null", "''", "good", "unique"]
    assert "declared twice" in of.skipped[2].reason
    assert takes(of, name="last", a=None)
    assert Decoder("mypt", [unique], engine=engine, skip_unreadable=True).tools == ()


@pytest.mark.parametrize(
    ("schema", "kept"),
    [
        ({"type": "integer", "enum": [1, 5, 50], "minimum": 2, "maximum": 10}, [5]),
        ({"type": "string", "enum": ["", "a", 1], "minLength": 1}, ["a"]),
        ({"enum": [{}, {"a": 1}], "required": ["a"]}, [{"a": 1}]),
        ({"enum": [["x"], [1]], "items": {"type": "integer"}}, [[1]]),
        ({"const": 3, "enum": [3, 4]}, [3]),
        ({"enum": [1, True, 2], "type": "integer"}, [1, 2]),
    ],
)
def test_values_fit_what_is_beside_them(schema: dict[str, Any], kept: list[Any]) -> None:
    of = Decoder("mypt", [requiring(a=schema)])
    values = schema.get("enum", [schema.get("const")])
    assert [v for v in values if takes(of, name="t", a=v)] == kept


def test_a_member_that_no_value_fits_is_never_written() -> None:
    """As real lists have it: texts for a boolean. A required one leaves no call."""
    schema = requiring(free={"type": "boolean", "enum": ["True", "False"]}, a={"type": "null"})
    with pytest.raises(SchemaFault, match="/properties/free/enum: no value fits"):
        Decoder("mypt", [schema])
    schema["function"]["parameters"]["required"] = ["a"]
    with pytest.warns(SchemaWarning, match="t/properties/free/enum .no value fits"):
        of = Decoder("mypt", [schema])
    assert takes(of, name="t", a=None)
    assert not takes(of, name="t", free="True", a=None)
    with pytest.raises(SchemaFault, match="no value fits"):
        Decoder("mypt", [schema], strict=True)


VALUES = [None, True, 0, 1, 2.5, -3, "", "ab", "c", [], [1], {}, {"a": 1}]
BESIDE = {
    "type": st.sampled_from(["integer", "string", ["null", "array"], "object"]),
    "minimum": st.integers(-1, 2),
    "minLength": st.integers(0, 2),
    "required": st.just(["a"]),
    "title": st.just("t"),
    "not_a_keyword": st.just(1),
}


@given(
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=5),
    st.fixed_dictionaries({}, optional=BESIDE),
)
def test_what_is_read_holds_the_same_values(enum: list[Any], beside: dict[str, Any]) -> None:
    """A value fits the schema as declared exactly if it fits the schema as read."""
    declared = {"enum": enum, **beside}
    try:
        read = plain(ToolSpec("t", parameters(a=declared)))[0].schema["properties"]["a"]
    except SchemaFault:
        read = False
    for value in VALUES:
        assert (not misfits(value, declared)) == (not misfits(value, read))


def test_a_free_object_goes_to_the_engine_that_can_fill_it() -> None:
    pytest.importorskip("llguidance")
    free = requiring(headers={"type": "object"})
    assert Decoder("mypt", [free]).engine.tables_only, "tables write it as {}"
    of = Decoder("mypt", [free], engine="auto")
    assert not of.engine.tables_only
    assert takes(of, name="t", headers={"a": [1]})
    closed = requiring(headers={"type": "object", "additionalProperties": False})
    assert Decoder("mypt", [closed], engine="auto").engine.tables_only


def test_members_that_are_meant_go_to_the_engine_that_can_write_them() -> None:
    """Where a schema says so; where it says nothing, a tool takes the arguments that it names."""
    more = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}  # fmt: skip
    named = {"type": "object", "properties": more["properties"]}
    for schema, whole in (
        (more, False),
        ({"type": "object", "properties": {"x": more}}, False),
        ({**more, "additionalProperties": False}, True),
        (named, True),
    ):
        of = Decoder("mypt", [{"name": "t", "parameters": schema}], engine="auto")
        assert of.engine.tables_only == whole


def test_references_by_the_name_of_a_part() -> None:
    part = {"id": "#count", "type": "integer"}
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "definitions": {"c": part}, "properties": {"a": {"$ref": "#count"}}}  # fmt: skip
    of = Decoder("mypt", [{"name": "t", "parameters": schema}], engine="auto")
    assert takes(of, name="t", a=3)


def test_functions_and_forbidding_do_not_warn_again() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Decoder("mypt", [requiring(a={"type": "string"})]).forbidding(["think"])
