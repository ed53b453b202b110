"""Finds declared tools that are declared twice, or whose parameters are no JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mypt_records.chat import Chat, located
from mypt_records.checks.registry import check
from mypt_records.fixes import within
from mypt_records.type_names import KINDS, json_type
from mypt_spec.bodies.json_schema import Patience, SchemaError
from mypt_spec.bodies.strict_json import escape, value_at
from mypt_spec.findings import Finding

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VALUES = ("default", "const", "example", "examples")  # where null is a value
_MOST = 5  # types named for one tool
_DEPTH = 50
_KEYWORDS = frozenset({
    "type", "properties", "$ref", "$defs", "definitions", "allOf", "anyOf", "oneOf", "not", "enum",
    "const", "additionalProperties", "patternProperties", "$schema", "if", "required", "items",
})  # fmt: skip


@check("MYP131")
def refused_name(chat: Chat) -> Iterator[Finding]:
    """Finds names of tools that the APIs of model servers refuse."""
    for tool in chat.tools or ():
        if tool.name is not None and not _NAME.fullmatch(tool.name.text):
            message = f"APIs refuse the tool name {tool.name.text[:70]!r}"
            hint = "use letters, digits, _ and -, at most 64 of them, here and in its calls"
            yield located("MYP131", message, tool.name, hint=hint)


@check("MYP126")
def duplicate_tool(chat: Chat) -> Iterator[Finding]:
    """Finds tools that are declared twice."""
    names: set[str] = set()
    for tool in chat.tools or ():
        if tool.name is None:
            continue
        if tool.name.text in names:
            message = f"the tool {tool.name.text!r} is declared twice"
            yield located("MYP126", message, tool.name, hint="delete one, or rename it")
        names.add(tool.name.text)


@check("MYP128")
def unusable_schema(chat: Chat) -> Iterator[Finding]:
    """Finds parameters that are no JSON Schema."""
    patience = Patience()
    for tool in chat.tools or ():
        schema = tool.parameters
        if schema is None:
            continue
        name = tool.name.text if tool.name is not None else "a tool"
        subject = f"the parameters of {name!r}"
        if not isinstance(schema.value, dict):
            fault = f"{subject} are not a valid JSON Schema: expected an object"
            yield located("MYP128", fault, schema, hint='write {"type": "object", ...}')
        elif bare := _without_properties(schema.value):
            reason = f"{bare!r} is the name of an argument, not a keyword"
            fault = f"{subject} are not a valid JSON Schema: {reason}"
            hint = 'write {"type": "object", "properties": {...}, "required": [...]}'
            yield located("MYP128", fault, schema, f"/{escape(bare)}", hint=hint)
        elif void := null_in(schema.value):
            fault = f"{subject} are padded with null, which makes them no JSON Schema"
            hint = "leave out what is null: a table gives the keys of all schemas to each of them"
            yield located("MYP128", fault, schema, void, hint=hint)
        elif misplaced := _required_inside(schema.value):
            fault = f'{subject}: "required" is among the properties, where it names an argument'
            hint = 'put it beside "properties", as a list of names'
            yield located("MYP128", fault, schema, misplaced, hint=hint)
        elif wrong := _wrong_types(schema.value):
            meant = [(at, json_type(kind) or "") for at, kind in wrong]
            exact = all(kind for _, kind in meant)
            fix = within(schema, meant, "write the types of JSON Schema") if exact else None
            for pointer, kind in wrong[:_MOST]:
                fault = f"{subject} are not a valid JSON Schema: {kind!r} is not one of its types"
                finding = located("MYP128", fault, schema, pointer, hint=_type_help(kind))
                yield replace(finding, fix=fix)
        else:
            try:
                patience.check_schema(schema.value)
            except SchemaError as error:
                if error.unchecked:
                    continue
                fault = f"{subject} are not a valid JSON Schema: {error}"
                hint = _help(schema.value, error.pointer)
                yield located("MYP128", fault, schema, error.pointer, hint=hint)


def _without_properties(schema: dict[str, Any]) -> str:
    """Returns the first argument of parameters that name these without `properties`."""
    if not schema or _KEYWORDS & schema.keys():
        return ""
    described = all(
        isinstance(v, dict) and {"type", "description"} & v.keys() for v in schema.values()
    )
    return next(iter(schema)) if described else ""


def null_in(schema: Any) -> str:
    """Returns the pointer of the first key of a schema that is null; empty for none."""
    if not isinstance(schema, dict):
        return ""
    for key, value in schema.items():
        if value is None and key not in _VALUES:
            return f"/{escape(key)}"
    for key in ("properties", "items", "additionalProperties"):
        if key in schema and (pointer := null_in(schema[key])):
            return f"/{key}{pointer}"
    properties = schema.get("properties")
    for key, value in properties.items() if isinstance(properties, dict) else ():
        if pointer := null_in(value):
            return f"/properties/{escape(key)}{pointer}"
    return ""


def without_null(schema: Any) -> Any:
    """Returns a schema without the keys that are null, as far as `null_in` looks."""
    if not isinstance(schema, dict):
        return schema
    bare = {k: v for k, v in schema.items() if v is not None or k in _VALUES}
    for key in ("items", "additionalProperties"):
        if key in bare:
            bare[key] = without_null(bare[key])
    if isinstance(properties := bare.get("properties"), dict):
        bare["properties"] = {
            key: without_null(value) for key, value in properties.items() if value is not None
        }
    return bare


def _required_inside(schema: dict[str, Any]) -> str:
    """Returns the pointer of a list `required` among properties; empty for none."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return ""
    if isinstance(properties.get("required"), list):
        return "/properties/required"
    for key, below in properties.items():
        if isinstance(below, dict) and (pointer := _required_inside(below)):
            return f"/properties/{escape(key)}{pointer}"
    return ""


def _wrong_types(schema: Any, depth: int = 0) -> list[tuple[str, str]]:
    """Returns the types of a schema that JSON Schema does not have, each after its pointer."""
    if not isinstance(schema, dict) or depth > _DEPTH:
        return []
    kind, properties = schema.get("type"), schema.get("properties")
    names = [(f"/{i}", name) for i, name in enumerate(kind)] if isinstance(kind, list) else []
    wrong = [
        (f"/type{at}", name)
        for at, name in names or [("", kind)]
        if isinstance(name, str) and name not in KINDS
    ]
    for key, below in properties.items() if isinstance(properties, dict) else ():
        for at, name in _wrong_types(below, depth + 1):
            wrong.append((f"/properties/{escape(key)}{at}", name))
    for key in ("items", "additionalProperties"):
        wrong += [(f"/{key}{at}", name) for at, name in _wrong_types(schema.get(key), depth + 1)]
    return wrong


def _type_help(kind: str) -> str:
    word, _, suffix = kind.partition(",")
    if not kind or json_type(word) == "":
        return 'leave "type" out where any value will do'
    kind_meant = json_type(word)
    if kind_meant and suffix.strip().lower() == "optional":
        return f'write "type": "{kind_meant}", and leave the name out of "required"'
    return f'write "type": "{kind_meant}"' if kind_meant else f"types are {', '.join(KINDS)}"


def _help(schema: Any, pointer: str) -> str:
    value, key = value_at(schema, pointer) if pointer else schema, pointer.rpartition("/")[2]
    if key == "required":
        hint = '"required" is a list beside "properties", such as "required": ["city"]'
        return hint + ("" if isinstance(value, list) else ", not a mark of a single property")
    return ""
