"""Types of other languages in the schemas of tools and answers."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

from mypt_infer.decode import Decoder, Response, SchemaFault, SchemaWarning
from mypt_infer.decode.base.schemas import plain
from mypt_infer.decode.base.tools import ToolSpec
from mypt_spec.bodies.type_names import standard_types


def spec(schema: Any) -> dict[str, Any]:
    return {"name": "weather", "parameters": schema}


BFCL = spec(
    {
        "type": "dict",
        "properties": {
            "city": {"type": "String"},
            "days": {"type": "float"},
            "tags": {"type": "ArrayList", "items": {"type": "Bigint"}},
            "more": {"type": "any"},
            "unit": {"type": ["str", "None"]},
        },
        "required": ["city"],
    }
)


def test_names_of_types_mean_the_types_of_json_schema() -> None:
    tool, notes = plain(ToolSpec("weather", BFCL["parameters"]))
    assert tool.schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "number"},
            "tags": {"type": "array", "items": {"type": "integer"}},
            "more": {},
            "unit": {"type": ["string", "null"]},
        },
        "required": ["city"],
    }
    assert dict(notes.renamed)["any"] == ""
    assert dict(notes.renamed)["Bigint"] == "integer"


def test_one_warning_for_a_list_of_tools() -> None:
    other = {"name": "other", "parameters": {"type": "dict", "properties": {}, "optional": []}}
    with pytest.warns(SchemaWarning) as caught:
        Decoder("praxis", [BFCL, other], engine="auto")
    (warning,) = caught
    assert "types of other languages in the schemas of tools: " in str(warning.message)
    assert "'dict' as object" in str(warning.message)
    assert "'any' as any value" in str(warning.message)
    assert "read as nothing in the schemas of tools: optional;" in str(warning.message)


def test_strict_refuses_them() -> None:
    with pytest.raises(SchemaFault, match="'dict' would be read as object; write the type of JSON"):
        Decoder("praxis", [spec({"type": "dict", "properties": {}})], strict=True)


def test_a_name_that_is_no_type_is_refused_as_before() -> None:
    with pytest.raises(SchemaFault, match="'strin' is not a type; known are string"):
        Decoder("praxis", [spec({"type": "dict", "properties": {"a": {"type": "strin"}}})])


def test_the_schema_of_a_response_is_read_so_too() -> None:
    with pytest.warns(
        SchemaWarning, match="types of other languages in the schema of the response"
    ):
        assert Response(schema={"type": "dict"}).plain["type"] == "object"


def test_schemas_beside_values_and_behind_references_are_read_so_too() -> None:
    schema = {
        "type": "dict",
        "properties": {"a": {"type": "float", "enum": [1, "x"]}, "b": {"$ref": "#/$defs/b"}},
        "$defs": {"b": {"type": "int", "enum": [1, 2], "minimum": 2}},
    }
    tool, _ = plain(ToolSpec("t", schema))
    assert tool.schema["properties"]["a"] == {"enum": [1]}
    assert tool.schema["$defs"]["b"] == {"enum": [2]}


def test_only_types_are_renamed() -> None:
    """Values, and arguments called `type`, stay what they are."""
    schema = {
        "type": "object",
        "properties": {"type": {"enum": ["dict", {"type": "dict"}]}, "float": {"type": "string"}},
        "default": {"type": "dict"},
    }
    assert standard_types(schema) == (schema, {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "dict" in json.dumps(plain(ToolSpec("t", schema))[0].schema)
