"""Reads names of types of other languages as the types of JSON Schema that they mean.

Lists of tools name types as Python, Java or SQL do: `dict`, `float`, `ArrayList`. The meaning of
each name is certain, whatever its case. Input is a schema; output is the schema with the names of
JSON Schema, and what was renamed.

>>> standard_types({"type": "dict", "properties": {"n": {"type": "float"}, "x": {"type": "any"}}})
({'type': 'object', 'properties': {'n': {'type': 'number'}, 'x': {}}}, {'dict': 'object', \
'float': 'number', 'any': ''})
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mypt_spec.bodies.strict_json import escape

KINDS = ("string", "integer", "number", "boolean", "array", "object", "null")
ANY = frozenset({"", "any", "mixed", "unknown"})  # a type of all values: no type in JSON Schema
NAMES: Mapping[str, str] = {
    **dict.fromkeys(("str", "text", "char", "date", "datetime", "enum"), "string"),
    **dict.fromkeys(("int", "int32", "int64", "long", "short", "byte", "bigint"), "integer"),
    **dict.fromkeys(("float", "double", "decimal", "num"), "number"),
    "bool": "boolean",
    **dict.fromkeys(("list", "tuple", "set", "arr", "arraylist"), "array"),
    **dict.fromkeys(("dict", "map", "hash", "hashmap", "struct", "obj", "json"), "object"),
    **dict.fromkeys(("none", "nonetype", "undefined"), "null"),
    **{kind: kind for kind in KINDS},
    **dict.fromkeys(ANY, ""),
}
# Keywords whose value is a schema or a list of schemas, and those whose value is schemas by name.
_PARTS = frozenset({
    "additionalItems", "additionalProperties", "allOf", "anyOf", "contains", "else", "if", "items",
    "not", "oneOf", "prefixItems", "propertyNames", "then", "unevaluatedItems",
    "unevaluatedProperties",
})  # fmt: skip
_NAMED = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_DEPTH = 200  # deeper schemas are returned as they are; their readers refuse them


def json_type(kind: Any) -> str | None:
    """Returns the type that a name means: "" for any value, None if that is not certain."""
    return NAMES.get(kind.lower()) if isinstance(kind, str) else None


def standard_types(schema: Any) -> tuple[Any, dict[str, str]]:
    """Returns (schema, renamed): the schema with standard types, and the type of each other name.

    Names whose meaning is not certain stay. A schema without other names is returned as it is.
    """
    renamed: dict[str, str] = {}
    standard = _standard(schema, renamed, 0)
    return (standard if renamed else schema), renamed


def other_types(schema: Any, at: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yields (pointer, name) of each type in a schema that JSON Schema does not have.

    >>> [*other_types({"type": "dict", "items": [{"type": ["strin", "null"]}]})]
    [('/type', 'dict'), ('/items/0/type/0', 'strin')]
    """
    if isinstance(schema, list):
        for i, part in enumerate(schema):
            yield from other_types(part, f"{at}/{i}", depth + 1)
    if not isinstance(schema, Mapping) or depth > _DEPTH:
        return
    kind = schema.get("type")
    many = [(f"/{i}", name) for i, name in enumerate(kind)] if isinstance(kind, list) else []
    for place, name in many or [("", kind)]:
        if isinstance(name, str) and name not in KINDS:
            yield f"{at}/type{place}", name
    for word, value in schema.items():
        if word in _NAMED and isinstance(value, Mapping):
            for key, part in value.items():
                yield from other_types(part, f"{at}/{word}/{escape(key)}", depth + 1)
        elif word in _PARTS:
            yield from other_types(value, f"{at}/{word}", depth + 1)


def type_notes(renamed: Mapping[str, str]) -> str:
    """Returns how types are read: "'dict' as object, 'any' as any value"."""
    return ", ".join(f"{name!r} as {kind or 'any value'}" for name, kind in renamed.items())


def _standard(schema: Any, renamed: dict[str, str], depth: int) -> Any:
    if isinstance(schema, list):
        return [_standard(part, renamed, depth + 1) for part in schema]
    if not isinstance(schema, Mapping) or depth > _DEPTH:
        return schema
    out: dict[str, Any] = {}
    for word, value in schema.items():
        if word in _NAMED and isinstance(value, Mapping):
            out[word] = {key: _standard(part, renamed, depth + 1) for key, part in value.items()}
        elif word in _PARTS:
            out[word] = _standard(value, renamed, depth + 1)
        elif word != "type":
            out[word] = value
        elif (kind := _type(value, renamed)) is not None:
            out[word] = kind
    return out


def _type(value: Any, renamed: dict[str, str]) -> Any:
    """Returns the value of `type` in JSON Schema; None if any value fits."""
    kinds = value if isinstance(value, list) else [value]
    meant = {k: json_type(k) for k in kinds if isinstance(k, str) and k not in KINDS}
    others = {name: kind for name, kind in meant.items() if kind is not None}
    if not others:
        return value
    renamed.update(others)
    if "" in others.values():
        return None
    standard = [others.get(k, k) if isinstance(k, str) else k for k in kinds]
    return [*dict.fromkeys(standard)] if isinstance(value, list) else standard[0]
