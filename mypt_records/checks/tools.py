"""Finds declared tools that are declared twice, or whose parameters are no JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mypt_records.chat import TOOL_NAME, Chat, JsonValue, located
from mypt_records.checks.registry import check
from mypt_records.fixes import within
from mypt_spec.bodies.json_schema import Patience, SchemaError
from mypt_spec.bodies.strict_json import escape, kind_of, value_at
from mypt_spec.bodies.type_names import KINDS, Places, json_type, mapped, other_types, type_notes
from mypt_spec.findings import Finding, Fix, regraded

_VALUES = ("default", "const", "example", "examples")  # where null is a value
_OF_FUNCTION = {"function", "parameters", "description"}  # keys of a definition of a function
_OPEN = {"patternProperties", "$ref", "allOf", "anyOf", "oneOf"}  # that declare more
_MOST = 5  # types named for one tool
_KEYWORDS = frozenset({
    "type", "properties", "$ref", "$defs", "definitions", "allOf", "anyOf", "oneOf", "not", "enum",
    "const", "additionalProperties", "patternProperties", "$schema", "if", "required", "items",
})  # fmt: skip


@check("MYP131")
def refused_name(chat: Chat) -> Iterator[Finding]:
    """Finds names of tools that the APIs of model servers refuse."""
    for tool in chat.tools or ():
        if tool.name is not None and not TOOL_NAME.fullmatch(tool.name.text):
            yield located("MYP131", f"APIs refuse the tool name {tool.name.text[:70]!r}", tool.name)


@check("MYP102")
def malformed_tool(chat: Chat) -> Iterator[Finding]:
    """Finds definitions without a name, or of other types (MYP104, MYP127).

    Tools that are no functions, such as a search, need no name.
    """
    for tool in chat.tools or ():
        outer: Any = tool.value if isinstance(tool.value, dict) else {}
        function = outer.get("function", tool.value)
        name = function.get("name") if isinstance(function, dict) else ""
        wrapped, code, fault, key = "function" in outer, "MYP104", "", ""
        if not isinstance(function, dict):
            key = "/function" * wrapped
            fault = f"the function of a tool must be an object, got {kind_of(function)}"
        elif wrapped and outer.get("type", "function") != "function":
            code, fault, key = "MYP127", 'the type of a tool is not "function"', "/type"
        elif name == "":
            code, fault = "MYP127", "the name of a tool is empty"
        elif not isinstance(name, str | None):
            fault = f"the name of a tool must be a string, got {kind_of(name)}"
        elif name is None and (outer.get("type") == "function" or _OF_FUNCTION & outer.keys()):
            code, fault = "MYP102", "a tool has no name"
        if fault:
            hint = 'a tool is {"type": "function", "function": {"name": "...", ...}}'
            key *= tool.at.count("/") > 1  # not of a list in a JSON text
            yield Finding(code, fault, tool.at + key, help=hint)


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


@check("MYP138")
def mixed_definitions(chat: Chat) -> Iterator[Finding]:
    """Finds a definition of a function that has another form than those before it."""
    named = [tool for tool in chat.tools or () if tool.name is not None]
    tools = [tool for tool in named if tool.value.get("type", "function") == "function"]
    wraps = ["function" in tool.value for tool in tools]
    forms = [(w, not w or "type" in tool.value) for w, tool in zip(wraps, tools, strict=True)]
    about = [tool.value.get("function", tool.value).get("description") for tool in tools]
    bare = [tool for tool, text in zip(tools, about, strict=True) if not text]
    if bare and ("" in about or len(bare) == 1 < len(tools) - 1):
        tool = bare[0]
        assert tool.name is not None
        message = f"the tool {tool.name.text!r} has no description"
        hint = "say what it does: a model calls it by that"
        yield regraded(Finding("MYP138", message, tool.at, help=hint), "info")
    for tool, form in zip(tools, forms, strict=True):
        if form != forms[0]:
            wrong = '"function"' if form[0] != forms[0][0] else '"type"'
            message = f"some tools of the record have the key {wrong}, and others have not"
            yield Finding("MYP138", message, tool.at)
            break


def bare_tools(chat: Chat) -> Iterator[Finding]:
    """Finds tools that are not under the key `function`, for templates that tell them apart."""
    for tool in [t for t in chat.tools or () if t.name and "function" not in t.value][:1]:
        message = 'these tools are written without the key "function", which servers add'
        hint = 'write each as {"type": "function", "function": {...}}, or serve them as they are'
        yield regraded(Finding("MYP138", message, tool.at, help=hint), "info")


def undeclared(schema: Any) -> list[str]:
    """Returns the names that a schema requires although nothing in it says what they are."""
    named, required = schema.get("properties"), schema.get("required")
    if not isinstance(named, dict) or not isinstance(required, list) or _OPEN & schema.keys():
        return []
    return [] if schema.get("additionalProperties") else [k for k in required if k not in named]


@check("MYP128")
def unusable_schema(chat: Chat) -> Iterator[Finding]:
    """Finds parameters that are no JSON Schema.

    Types of other languages with a certain meaning are one warning for all tools.
    """
    patience, foreign = Patience(), list[tuple[str, JsonValue, Places]]()
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
        elif "None" in repr(schema.value) and (void := null_in(schema.value)):
            fault = f"{subject} are padded with null, which makes them no JSON Schema"
            hint = "leave out what is null: a table gives the keys of all schemas to each of them"
            yield located("MYP128", fault, schema, void, hint=hint)
        elif misplaced := _required_inside(schema.value):
            fault = f'{subject}: "required" is among the properties, where it names an argument'
            hint = 'put it beside "properties", as a list of names'
            yield located("MYP128", fault, schema, misplaced, hint=hint)
        elif (types := other_types(schema.value)) and None in [json_type(k) for _, k in types]:
            for pointer, kind in [t for t in types if json_type(t[1]) is None][:_MOST]:
                fault = f"{subject} are not a valid JSON Schema: {kind!r} is not one of its types"
                yield located("MYP128", fault, schema, pointer, hint=_type_help(kind))
        else:
            try:
                patience.check_schema(schema.value)
            except SchemaError as error:
                if error.unchecked:
                    continue
                fault = f"{subject} are not a valid JSON Schema: {error}"
                hint = _help(schema.value, error.pointer)
                yield located("MYP128", fault, schema, error.pointer, hint=hint)
                continue
            if names := undeclared(schema.value):
                fault = f"{subject} require {names[0]!r}, which is none of their properties"
                finding = located("MYP128", fault, schema, "/required", hint="declare it")
                yield regraded(finding, "warning")
            if types:
                foreign.append((subject, schema, types))
    if foreign:
        yield _foreign_types(foreign)


def _foreign_types(foreign: list[tuple[str, JsonValue, Places]]) -> Finding:
    """Returns the warning about the types of some tools, and the fix of those that it reaches."""
    subject, schema, types = foreign[0]
    others = f" and of {len(foreign) - 1} other tools" if len(foreign) > 1 else ""
    names = [kind for _, _, places in foreign for _, kind in places]
    message = f"types of other languages in {subject}{others}, read {type_notes(names)}"
    title = "write the types of JSON Schema"
    hint = title + '; leave "type" out for any value' * ("" in map(json_type, names))
    finding = located("MYP128", message, schema, types[0][0], hint=hint)
    # Schemas in a JSON text may share it, and a text has one fix at a time.
    fixes = [
        within(source, [(at, json_type(kind)) for at, kind in places], title)
        for _, source, places in (foreign if schema.outer is None else foreign[:1])
    ]
    if all(fixes) and all(map(json_type, names)):
        patch = tuple(op for fix in fixes if fix is not None for op in fix.patch)
        finding = replace(finding, fix=Fix(title, True, patch=patch))
    return regraded(finding, "warning")


def _without_properties(schema: dict[str, Any]) -> str:
    """Returns the first argument of parameters that name these without `properties`."""
    if not schema or _KEYWORDS & schema.keys():
        return ""
    described = all(
        isinstance(v, dict) and {"type", "description"} & v.keys() for v in schema.values()
    )
    return next(iter(schema)) if described else ""


def null_in(schema: Any) -> str:
    """Returns the pointer of an outermost key of a schema that is null; empty for none."""
    places: list[str] = []

    def look(part: dict[str, Any], at: str) -> dict[str, Any]:
        places.extend(f"{at}/{escape(k)}" for k in part if part[k] is None and k not in _VALUES)
        named = part.get("properties")
        members = named.items() if isinstance(named, dict) else ()
        places.extend(f"{at}/properties/{escape(k)}" for k, v in members if v is None)
        return part

    mapped(schema, look)
    return min(places, key=lambda place: place.count("/"), default="")


def without_null(schema: Any) -> Any:
    """Returns a schema without the keys that are null."""

    def bare(part: dict[str, Any], _: str) -> dict[str, Any]:
        if isinstance(named := part.get("properties"), dict):
            part["properties"] = {key: value for key, value in named.items() if value is not None}
        return {key: v for key, v in part.items() if v is not None or key in _VALUES}

    return mapped(schema, bare)


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


def _type_help(kind: str) -> str:
    word, _, suffix = kind.partition(",")
    meant = json_type(word) if suffix.strip().lower() == "optional" else None
    if meant:
        return f'write "type": "{meant}", and leave the name out of "required"'
    return f"types are {', '.join(KINDS)}"


def _help(schema: Any, pointer: str) -> str:
    value, key = value_at(schema, pointer) if pointer else schema, pointer.rpartition("/")[2]
    if key == "required":
        hint = '"required" is a list beside "properties", such as "required": ["city"]'
        return hint + ("" if isinstance(value, list) else ", not a mark of a single property")
    return ""
