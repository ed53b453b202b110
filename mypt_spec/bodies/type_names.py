"""Reads names of types of other languages as the types of JSON Schema that they mean.

Lists of tools name types as Python, Java or SQL do: `dict`, `float`, `ArrayList`. The meaning of
each name is certain, whatever its case. Input is a schema; output is the schema with the names of
JSON Schema, and what was renamed.

>>> standard_types({"type": "dict", "properties": {"n": {"type": "float"}, "x": {"type": "any"}}})
({'type': 'object', 'properties': {'n': {'type': 'number'}, 'x': {}}}, {'dict': 'object', \
'float': 'number', 'any': ''})
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mypt_spec.bodies.strict_json import escape
from mypt_spec.compiled.toml import load

KINDS = ("string", "integer", "number", "boolean", "array", "object", "null")
_TABLE = load(Path(__file__).with_suffix(".toml"))
NAMES = {name: kind for kind, names in _TABLE["names"].items() for name in (kind, *names)}
KEYWORDS = {kind: frozenset(words) for kind, words in _TABLE["keywords"].items()}
SCHEMAS = KEYWORDS["in_place"] | KEYWORDS["inside"]
Places = list[tuple[str, str]]  # a pointer, and the name of the type there
_DEPTH = 200  # deeper schemas are returned as they are; their readers refuse them


def json_type(kind: Any) -> str | None:
    """Returns the type that a name means: "" for any value, None if that is not certain."""
    return NAMES.get(kind.lower()) if isinstance(kind, str) else None


def standard_types(schema: Any) -> tuple[Any, dict[str, str]]:
    """Returns (schema, renamed): the schema with standard types, and the type of each other name.

    Names whose meaning is not certain stay. A schema without other names is returned as it is.
    """
    meant = {name: json_type(name) for _, name in other_types(schema)}
    renamed = {name: kind for name, kind in meant.items() if kind is not None}
    return (mapped(schema, _standard) if renamed else schema), renamed


def other_types(schema: Any) -> Places:
    """Returns (pointer, name) of each type that JSON Schema does not have, the outer ones first.

    >>> other_types({"items": [{"type": ["strin", "null"]}], "type": "dict"})
    [('/type', 'dict'), ('/items/0/type/0', 'strin')]
    """
    places: Places = []

    def look(part: dict[str, Any], at: str) -> dict[str, Any]:
        kind = part.get("type")
        for i, name in enumerate(kind if isinstance(kind, list) else [kind]):
            if isinstance(name, str) and name not in KINDS:
                places.append((f"{at}/type" + f"/{i}" * isinstance(kind, list), name))
        return part

    mapped(schema, look)
    return sorted(places, key=lambda place: place[0].count("/"))


def type_notes(names: Iterable[str]) -> str:
    """Returns how types are read, each once: "'dict' as object, 'any' as any value"."""
    return ", ".join(f"{n!r} as {json_type(n) or 'any value'}" for n in dict.fromkeys(names))


def mapped(
    schema: Any, change: Callable[[dict[str, Any], str], Any], at: str = "", depth: int = 0
) -> Any:
    """Returns a schema with changed parts, the inner ones first; `change` gets their pointers."""
    if isinstance(schema, list):
        return [mapped(part, change, f"{at}/{i}", depth + 1) for i, part in enumerate(schema)]
    if not isinstance(schema, Mapping) or depth > _DEPTH:
        return schema
    out = dict(schema)
    for word, value in schema.items():
        if word in KEYWORDS["by_name"] and isinstance(value, Mapping):
            parts = {key: (part, f"{at}/{word}/{escape(str(key))}") for key, part in value.items()}
            out[word] = {k: mapped(v, change, p, depth + 1) for k, (v, p) in parts.items()}
        elif word in SCHEMAS:
            out[word] = mapped(value, change, f"{at}/{word}", depth + 1)
    return change(out, at)


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Yields all objects in a schema."""
    stack = [schema]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield item
        if isinstance(item, dict | list):
            stack += item.values() if isinstance(item, dict) else item


def _standard(schema: dict[str, Any], _: str) -> dict[str, Any]:
    """Returns a schema whose own type is standard, or left out if any value fits."""
    value = schema.get("type")
    kinds = value if isinstance(value, list) else [value]
    meant = [name if json_type(name) is None else json_type(name) for name in kinds]
    if "" in meant:
        return {word: part for word, part in schema.items() if word != "type"}
    standard = [kind for i, kind in enumerate(meant) if kind not in meant[:i]]
    kind = standard if isinstance(value, list) else standard[0]
    return schema if value is None else schema | {"type": kind}
