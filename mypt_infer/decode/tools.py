"""Reads declared tools: JSON schemas in OpenAI's style, or Python functions with type hints.

Input: whatever a caller declares. Output: ToolSpecs, which the decoder, the prompt and the toolbox
share, and the check of what tables can hold.
"""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
NOTES = {
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
    "strict",
}
_BOUNDS = {"minLength", "minimum", "maximum"}
_KNOWN = (
    {"type", "enum", "const", "properties", "required", "additionalProperties", "items"}
    | _BOUNDS
    | NOTES
)
_LLGUIDANCE = {
    "$defs", "$ref", "allOf", "anyOf", "definitions", "exclusiveMaximum", "exclusiveMinimum",
    "format", "maxItems", "maxLength", "maximum",
    "minItems", "minLength", "minimum", "multipleOf", "oneOf", "pattern", "patternProperties",
    "prefixItems",
}  # fmt: skip
_PYTHON = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
MAX_DEPTH = 20
# The most numbers between a minimum and a maximum: each becomes an alternative.
MAX_RANGE = 1000


class SchemaFault(ValueError):
    """A tool cannot be declared; says which tool, the JSON pointer into its schema, and why."""

    def __init__(self, tool: str, pointer: str, message: str) -> None:
        super().__init__(f"tool {tool!r}{f' at {pointer}' if pointer else ''}: {message}")
        self.tool, self.pointer, self.reason = tool, pointer, message


@dataclass(frozen=True)
class ToolSpec:
    """A tool. `schema` is the JSON Schema of its arguments, an object.

    Arguments are written in the order of `properties`.
    """

    name: str
    schema: Mapping[str, Any]
    description: str = ""

    @property
    def properties(self) -> dict[str, Any]:
        return dict(self.schema.get("properties", {}))

    @property
    def required(self) -> frozenset[str]:
        return frozenset(self.schema.get("required", ()))


Declaration = ToolSpec | Mapping[str, Any] | Callable[..., Any]


def declare(tools: Iterable[Declaration]) -> tuple[ToolSpec, ...]:
    """Returns the tools as ToolSpecs.

    Raises SchemaFault for a bad declaration, and for a name that is declared twice.

    >>> def add(a: int, b: int = 0) -> int:
    ...     "Add two numbers."
    >>> declare([add])[0].schema["properties"]
    {'a': {'type': 'integer'}, 'b': {'type': 'integer'}}
    """
    if isinstance(tools, (str, bytes, Mapping)) or callable(tools):
        raise SchemaFault("?", "", f"tools must be a list of tools, got {type(tools).__name__}")
    found = tuple(
        t
        if isinstance(t, ToolSpec)
        else _from_schema(t)
        if isinstance(t, Mapping)
        else _from_function(t)
        for t in tools
    )
    for i, tool in enumerate(found):
        if tool.name in [t.name for t in found[:i]]:
            raise SchemaFault(tool.name, "", "declared twice")
    return found


def _from_schema(given: Mapping[str, Any]) -> ToolSpec:
    function = given.get("function", given)
    if not isinstance(function, Mapping) or given.get("type", "function") != "function":
        raise SchemaFault(
            str(given.get("name", "?")),
            "",
            'expected {"type": "function", "function": {"name": ..., "parameters": {...}}}',
        )
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise SchemaFault(repr(name), "/name", "a tool needs a name, a string that is not empty")
    schema = function.get("parameters")
    schema = {"type": "object", "properties": {}} if schema is None else schema
    if not isinstance(schema, Mapping):
        raise SchemaFault(
            name, "/parameters", f"expected a JSON Schema of an object, got {type(schema).__name__}"
        )
    return ToolSpec(name, schema, str(function.get("description", "")))


def _from_function(function: Any) -> ToolSpec:
    name = getattr(function, "__name__", None)
    if not callable(function) or name is None:
        raise SchemaFault(
            repr(function), "", "expected a JSON schema, a ToolSpec, or a function with type hints"
        )
    hints = get_type_hints(function)
    properties: dict[str, Any] = {}
    required = []
    for key, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
            parameter.POSITIONAL_ONLY,
        ):
            raise SchemaFault(
                name,
                f"/{key}",
                "arguments are passed by name: no *args, **kwargs or positional-only parameters",
            )
        if key not in hints:
            raise SchemaFault(name, f"/{key}", "needs a type hint")
        properties[key] = _of_hint(hints[key], name, key)
        if parameter.default is parameter.empty:
            required.append(key)
    schema: dict[str, Any] = {"type": "object", "properties": properties} | (
        {"required": required} if required else {}
    )
    return ToolSpec(name, schema, inspect.getdoc(function) or "")


def _of_hint(hint: Any, tool: str, key: str) -> dict[str, Any]:
    if hint in _PYTHON:
        return {"type": _PYTHON[hint]}
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is list and len(arguments) == 1:
        return {"type": "array", "items": _of_hint(arguments[0], tool, key)}
    if origin in (Union, types.UnionType):
        parts = [_of_hint(a, tool, key) for a in arguments]
        if all(set(p) == {"type"} and isinstance(p["type"], str) for p in parts):
            return {"type": [p["type"] for p in parts]}
    raise SchemaFault(
        tool,
        f"/{key}",
        f"the type hint {hint!r} has no schema here; give the tool as a JSON schema",
    )


def check_schema(tool: ToolSpec) -> None:
    """Raises SchemaFault for a schema that tables cannot hold, naming the keyword.

    Also raises SchemaFault for what is no schema at all.
    """
    if tool.schema.get("type", "object") != "object":
        raise SchemaFault(tool.name, "/type", "the arguments of a tool are an object")
    _check({**tool.schema, "type": "object"}, tool.name, "", 0)


def _check(schema: Any, tool: str, at: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise SchemaFault(tool, at, f"nested more than {MAX_DEPTH} deep")
    if not isinstance(schema, Mapping):
        raise SchemaFault(
            tool,
            at,
            f"{json.dumps(schema) if isinstance(schema, bool) else type(schema).__name__} is no "
            "schema that a table can hold",
        )
    for word in schema:
        if word not in _KNOWN:
            other = "supports it" if word in _LLGUIDANCE else "does not support it either"
            raise SchemaFault(
                tool,
                f"{at}/{word}",
                f'the keyword {word!r} is not supported by tables; the engine "llguidance" {other}',
            )
    if "const" in schema or "enum" in schema:
        _check_values(schema, tool, at)
        return
    if "type" not in schema:
        raise SchemaFault(
            tool,
            at,
            'no "type": any value would fit, which tables cannot hold; the engine "llguidance" can',
        )
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not kinds or len(set(map(str, kinds))) < len(kinds):
        raise SchemaFault(tool, f"{at}/type", "expected a type, or a list of different ones")
    for kind in kinds:
        if kind not in _TYPES:
            raise SchemaFault(
                tool, f"{at}/type", f"{kind!r} is no type; known are {', '.join(_TYPES)}"
            )
    if {"integer", "number"} <= set(kinds):
        raise SchemaFault(tool, f"{at}/type", '"number" holds "integer": name one of them')
    _check_bounds(schema, kinds, tool, at)
    if "array" in kinds:
        if "items" not in schema:
            raise SchemaFault(
                tool,
                f"{at}/items",
                'an array needs "items" here; the engine "llguidance" can do without',
            )
        _check(schema["items"], tool, f"{at}/items", depth + 1)
    if "object" in kinds:
        _check_object(schema, tool, at, depth)


def _check_bounds(schema: Mapping[str, Any], kinds: list[str], tool: str, at: str) -> None:
    """Raises SchemaFault for bounds that tables cannot hold.

    Tables hold strings that are not empty, and whole numbers of a small range.
    """
    if "minLength" in schema and not ("string" in kinds and schema["minLength"] in (0, 1)):
        raise SchemaFault(
            tool,
            f"{at}/minLength",
            f"{schema['minLength']!r} is not supported by tables, only 0 and 1 for strings; the "
            'engine "llguidance" supports it',
        )
    if not {"minimum", "maximum"} & set(schema):
        return
    low, high = schema.get("minimum"), schema.get("maximum")
    whole = all(isinstance(n, int) and not isinstance(n, bool) for n in (low, high))
    if "integer" not in kinds or not whole or not 0 <= high - low < MAX_RANGE:  # type: ignore[operator]
        word = "minimum" if "minimum" in schema else "maximum"
        what = f"tables hold an integer between two whole numbers, at most {MAX_RANGE} of them"
        raise SchemaFault(tool, f"{at}/{word}", f'{what}; the engine "llguidance" supports more')


def _check_values(schema: Mapping[str, Any], tool: str, at: str) -> None:
    values = schema["enum"] if "enum" in schema else [schema["const"]]
    if not isinstance(values, list) or not values:
        raise SchemaFault(tool, f"{at}/enum", "expected a list of values that is not empty")
    if "enum" in schema and "const" in schema:
        raise SchemaFault(tool, f"{at}/const", '"enum" and "const" exclude each other')
    try:
        json.dumps(values, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise SchemaFault(tool, f"{at}/enum", f"a value is no JSON value: {error}") from None
    from mypt_spec.bodies.json_schema import misfits

    kind = {"type": schema["type"]} if "type" in schema else {}
    for value in values:
        if kind and misfits(value, kind):
            raise SchemaFault(tool, f"{at}/enum", f"{value!r} is not of type {schema['type']!r}")


def _check_object(schema: Mapping[str, Any], tool: str, at: str, depth: int) -> None:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, Mapping) or not all(isinstance(k, str) for k in properties):
        raise SchemaFault(tool, f"{at}/properties", "expected an object of schemas")
    if not isinstance(required, list | tuple):
        raise SchemaFault(tool, f"{at}/required", "expected a list of names")
    for key in required:
        if key not in properties:
            raise SchemaFault(
                tool, f"{at}/required", f"{key!r} is required, but no property says what it is"
            )
    for key, value in properties.items():
        _check(value, tool, f"{at}/properties/{key}", depth + 1)
