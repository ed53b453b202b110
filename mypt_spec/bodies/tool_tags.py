"""Reads and writes definitions of functions as nested tags, each on a line of its own.

Input is definitions as records have them, or their text; output is the other:

    <function>
    <name>find</name>
    <description>Finds places.</description>
    <parameters>
    <parameter>
    <name>zip</name>
    <type>string</type>
    </parameter>
    <required>["zip"]</required>
    </parameters>
    </function>

Objects and arrays are JSON, all else is text: a string as it is, other values in Python's words. So
the text does not tell `"5"` from `5`, and has no place for the type of the parameters, which is
an object, or for what is around a function. `lost` of `signatures` names what does not come back.
In "ordered_tool_tags", `enum` is the first other key of a parameter, and `required` the last key.
"""

import ast
import re
from collections.abc import Mapping
from typing import Any

from mypt_spec.bodies.strict_json import DefinitionsError, Fault, canonical, faults, loads
from mypt_spec.memo import lazy_re

_ELEMENT = lazy_re(r"\n<([^<>\n]+)>")
_WORDS = {"True": True, "False": False, "None": None}
_NUMBER = lazy_re(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")


def write_tool_tags(
    tools: list[dict[str, Any]], literals: re.Pattern[str], ordered: bool = False
) -> str:
    """Returns definitions as tags; `literals` matches the dialect's tags, which JSON escapes."""
    return "\n".join(_function(tool.get("function", tool), literals, ordered) for tool in tools)


def _function(function: Mapping[str, Any], literals: re.Pattern[str], ordered: bool) -> str:
    out = f"<function>\n<name>{function['name']}</name>"
    if "description" in function:
        out += f"\n<description>{str(function['description']).strip()}</description>"
    parameters = function.get("parameters")
    first, last = ("enum", "required") if ordered else (None, None)
    out += "\n<parameters>"
    if isinstance(parameters, Mapping):
        properties = parameters.get("properties")
        for name, field in properties.items() if isinstance(properties, Mapping) else ():
            out += f"\n<parameter>\n<name>{name}</name>"
            if isinstance(field, Mapping):
                out += f"\n<type>{field['type']}</type>" if "type" in field else ""
                if "description" in field:
                    out += f"\n<description>{str(field['description']).strip()}</description>"
                out += _other_keys(field, ("name", "type", "description"), literals, first)
            out += "\n</parameter>"
        out += _other_keys(parameters, ("type", "properties"), literals, last=last)
    out += "\n</parameters>"
    out += _other_keys(function, ("type", "name", "description", "parameters"), literals)
    return f"{out}\n</function>"


def _other_keys(
    item: Mapping[str, Any], but: tuple[str, ...], literals: re.Pattern[str],
    first: str | None = None, last: str | None = None,
) -> str:  # fmt: skip
    """Returns the keys of an object without a tag of their own: `first` ahead, `last` behind."""
    items = [(key, value) for key, value in item.items() if key not in but]
    items.sort(key=lambda pair: (pair[0] == last) - (pair[0] == first))
    texts = (
        (key, canonical(value, literals) if isinstance(value, dict | list) else str(value))
        for key, value in items
    )
    return "".join(f"\n<{key}>{text}</{key}>" for key, text in texts)


def read_tool_tags(text: str) -> list[dict[str, Any]]:
    """Returns the definitions in a text. Raises DefinitionsError."""
    text, at = f"\n{text}", 0
    out = []
    while at < len(text):
        name, inner = _opened(text, at)
        if name != "function":
            raise DefinitionsError("expected `<function>`", at)
        function, at = _fields(text, inner, "function")
        if not isinstance(function.get("name"), str) or not function["name"]:
            raise DefinitionsError('a definition has no "name"', inner - 1)
        out.append({"type": "function", "function": function})
    return out


def _fields(text: str, at: int, parent: str) -> tuple[dict[str, Any], int]:
    """Returns what the tags inside of one say, and the place after its end."""
    out: dict[str, Any] = {"type": "object"} if parent == "parameters" else {}
    while not text.startswith(end := f"\n</{parent}>", at):
        key, inner = _opened(text, at)
        if parent == "parameters" and key == "parameter":
            field, at = _fields(text, inner, key)
            out.setdefault("properties", {})[str(field.pop("name", ""))] = field
            continue
        if parent == "function" and key == "parameters":
            field, at = _fields(text, inner, key)
            out |= {key: field} if len(field) > 1 else {}
            continue
        closed = text.find(f"</{key}>\n<", inner)
        if closed < 0:
            raise DefinitionsError(f"`<{key}>` is not closed", at)
        value = text[inner:closed]
        out[key] = value if key in ("name", "description") else _value(value)
        at = closed + len(f"</{key}>")
    return out, at + len(end)


def _opened(text: str, at: int) -> tuple[str, int]:
    match = _ELEMENT.match(text, at)
    if match is None:
        raise DefinitionsError("expected a tag on a line of its own", at)
    return match[1], match.end()


def _value(text: str) -> Any:
    """Returns the value that a text most likely is."""
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text) or text[:1] in ("{", "["):
        try:
            value = loads(text)
            return value if next(faults(value), None) is None else text
        except Fault:
            pass
    try:  # types, of which there are several
        value = ast.literal_eval(text) if text[:2] == "['" else text
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text
    return value if isinstance(value, list) and all(isinstance(v, str) for v in value) else text
