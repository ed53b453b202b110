"""Types of values that tags hold as text: what a schema allows, and what a text is then."""

from __future__ import annotations

from typing import Any

import pytest

from mypt_spec.bodies.tagged import kinds_in, value_of

ROOT = {"$defs": {"n": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        ({"type": "string"}, {"string"}),
        ({"type": "number"}, {"number", "integer"}),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"enum": ["a", 1]}, {"string", "integer"}),
        ({"const": None}, {"null"}),
        ({"anyOf": [{"type": "string"}, {"type": "array"}]}, {"string", "array"}),
        ({"oneOf": [{"type": "null"}], "type": ["null", "string"]}, {"null"}),
        ({"allOf": [{"type": ["string", "integer"]}, {"type": "integer"}]}, {"integer"}),
        ({"$ref": "#/$defs/n"}, {"integer"}),
    ],
)
def test_the_types_that_a_schema_allows(schema: Any, kinds: set[str]) -> None:
    assert kinds_in(schema, ROOT) == kinds


@pytest.mark.parametrize("schema", [{}, True, {"$ref": "#/$defs/none"}, {"type": "banana"}])
def test_what_says_no_type_allows_all(schema: Any) -> None:
    assert len(kinds_in(schema, ROOT)) == 7


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('{"a":1}', '{"a":1}'),  # not as it is written here
        ("[1, 2]", "[1, 2]"),  # no object
        ('"a"', '"a"'),
        ('{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
    ],
)
def test_where_strings_fit_only_canonical_json_of_the_other_type_is_none(
    text: str, value: Any
) -> None:
    assert value_of(text, frozenset({"string", "object"})) == value


@pytest.mark.parametrize(
    ("text", "kinds", "value"),
    [
        ("True", {"boolean"}, True),
        ("False", {"boolean", "null"}, False),
        ("None", {"null", "integer"}, None),
        ("None", {"boolean"}, "None"),
        ("True", {"boolean", "string"}, "True"),
        ("true", {"boolean"}, True),
    ],
)
def test_words_of_python_are_values_where_no_string_may_be(
    text: str, kinds: set[str], value: Any
) -> None:
    assert value_of(text, frozenset(kinds)) == value
