"""Says what tables can hold of a schema.

Input: a tool as `schemas.plain` reads it. Output: none, or a SchemaFault that names the keyword and
the engine that reads it.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from mypt_infer.decode.base.schemas import plain
from mypt_infer.decode.base.tools import SchemaFault, ToolSpec

_KEYWORDS = {
    "additionalProperties", "const", "enum", "items", "maximum", "minLength", "minimum",
    "properties", "required", "type",
}  # fmt: skip
# No engine reads these.
_NOWHERE = {
    "contains", "dependencies", "dependentRequired", "dependentSchemas", "else", "if",
    "maxContains", "minContains", "not", "propertyNames", "then", "unevaluatedItems",
    "unevaluatedProperties", "uniqueItems",
}  # fmt: skip
MAX_DEPTH = 20
# The most numbers between a minimum and a maximum: each becomes an alternative.
MAX_RANGE = 1000


def check_schema(tool: ToolSpec) -> None:
    """Raises SchemaFault for a schema that tables cannot hold, naming the keyword.

    Also raises SchemaFault for what is no schema at all.
    """
    _check({**plain(tool)[0].schema, "type": "object"}, tool.name, "", 0)


def _check(schema: Any, tool: str, at: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise SchemaFault(tool, at, f"nested more than {MAX_DEPTH} deep")
    if not isinstance(schema, Mapping):
        kind = json.dumps(schema) if isinstance(schema, bool) else type(schema).__name__
        raise SchemaFault(tool, at, f"{kind} is not a schema that a table can hold")
    for word in schema:
        if word not in _KEYWORDS:
            other = "does not support it either" if word in _NOWHERE else "supports it"
            problem = f"the keyword {word!r} is not supported by tables"
            raise SchemaFault(tool, f"{at}/{word}", f'{problem}; the engine "llguidance" {other}')
    if "const" in schema or "enum" in schema:
        return
    if "type" not in schema:
        problem = 'no "type": any value would fit, which tables cannot hold'
        raise SchemaFault(tool, at, f'{problem}; the engine "llguidance" can')
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if {"integer", "number"} <= set(kinds):
        raise SchemaFault(tool, f"{at}/type", '"number" holds "integer": name one of them')
    _check_bounds(schema, kinds, tool, at)
    if "array" in kinds:
        if "items" not in schema:
            problem = 'an array needs "items" here; the engine "llguidance" can do without'
            raise SchemaFault(tool, f"{at}/items", problem)
        _check(schema["items"], tool, f"{at}/items", depth + 1)
    if "object" in kinds:
        _check_object(schema, tool, at, depth)


def _check_bounds(schema: Mapping[str, Any], kinds: list[str], tool: str, at: str) -> None:
    """Raises SchemaFault for bounds that tables cannot hold.

    Tables hold strings that are not empty, and whole numbers of a small range.
    """
    if "minLength" in schema and not ("string" in kinds and schema["minLength"] in (0, 1)):
        problem = f"{schema['minLength']!r} is not supported by tables, only 0 and 1 for strings; "
        raise SchemaFault(tool, f"{at}/minLength", f'{problem}the engine "llguidance" supports it')
    if not {"minimum", "maximum"} & set(schema) or from_one_byte(schema, kinds):
        return
    low, high = schema.get("minimum"), schema.get("maximum")
    are_integers = all(isinstance(n, int) and not isinstance(n, bool) for n in (low, high))
    if "integer" not in kinds or not are_integers or not 0 <= high - low < MAX_RANGE:  # type: ignore[operator]
        word = "minimum" if "minimum" in schema else "maximum"
        problem = (
            "tables hold numbers from 0 or 1 on, or integers between two whole numbers, "
            f"at most {MAX_RANGE} of them"
        )
        raise SchemaFault(tool, f"{at}/{word}", f'{problem}; the engine "llguidance" supports more')


def from_one_byte(schema: Mapping[str, Any], kinds: Iterable[str]) -> bool:
    """Returns whether the first byte of a number says all that its lower bound does.

    That is so from 0 or 1 on, without an upper bound; from 1 on, numbers have no exponent.
    """
    low = schema.get("minimum")
    is_small = type(low) is int and low in (0, 1)
    return is_small and "maximum" not in schema and bool({"integer", "number"} & set(kinds))


def _check_object(schema: Mapping[str, Any], tool: str, at: str, depth: int) -> None:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    for key in required:
        if key not in properties:
            problem = f"{key!r} is required, but no property says what it is"
            raise SchemaFault(tool, f"{at}/required", problem)
    for key, value in properties.items():
        if value is False and key not in required:
            continue  # never written
        _check(value, tool, f"{at}/properties/{key}", depth + 1)
