"""Reads and writes declared tools as text: JSON lines, a JSON array, TypeScript, nested tags.

Input are definitions as records have them, or the text of a block and its kind of body; output is
canonical text, or the definitions. JSON keeps each definition as it was given, keys in order; of
TypeScript, a "namespace" keeps all, "signatures" what `lost_in` does not name, and so "tool_tags".
"""

import re
from typing import Any

from mypt_spec.bodies.read_signatures import read_signatures
from mypt_spec.bodies.signatures import lost, write_signatures
from mypt_spec.bodies.strict_json import (
    DefinitionsError,
    a_kind_of,
    canonical,
    indented,
    strict_value,
)
from mypt_spec.bodies.tagged import function_of
from mypt_spec.bodies.tool_tags import read_tool_tags, write_tool_tags
from mypt_spec.bodies.typescript import read_namespace, write_namespace

LOSSY = ("signatures", "tool_tags")  # kinds of body that do not keep all of a definition
_BLANK_LINE = "\n\n"  # after each definition before a question


def write_definitions(tools: list[dict[str, Any]], kind: str, literals: re.Pattern[str]) -> str:
    """Returns definitions as the body of a block, in canonical form. `literals` matches tags."""
    if kind == "namespace":
        return write_namespace(tools, literals)
    if kind == "signatures":
        return write_signatures(tools)
    if kind == "tool_tags":
        return write_tool_tags(tools, literals)
    if kind == "tool_list":
        return canonical(tools, literals)
    return "\n".join(canonical(tool, literals) for tool in tools)


def write_indented(tools: list[dict[str, Any]], literals: re.Pattern[str]) -> str:
    """Returns definitions as text before a question: each indented, then an empty line."""
    return "".join(indented(tool, literals) + _BLANK_LINE for tool in tools)


def read_indented(text: str, literals: re.Pattern[str]) -> tuple[list[dict[str, Any]], str]:
    """Returns (definitions, rest) of a text that begins as `write_indented` writes them."""
    out: list[dict[str, Any]] = []
    while text.startswith("{"):
        end = text.find("\n}" + _BLANK_LINE) + len("\n}")
        try:
            tool = _definition(strict_value(text[:end], 0), 0)
        except DefinitionsError:
            break
        if indented(tool, literals) != text[:end]:
            break
        out.append(tool)
        text = text[end + len(_BLANK_LINE) :]
    return out, text


def read_definitions(text: str, kind: str) -> list[dict[str, Any]]:
    """Returns the definitions in the body of a block. Raises DefinitionsError."""
    if kind == "namespace":
        return read_namespace(text)
    if kind == "signatures":
        return read_signatures(text)
    if kind == "tool_tags":
        return read_tool_tags(text)
    if kind == "tool_list":
        tools = strict_value(text, 0)
        if not isinstance(tools, list) or not tools:
            raise DefinitionsError("expected a JSON array of them", 0)
        return [_definition(tool, 0) for tool in tools]
    out, at = [], 0
    for line in text.split("\n"):
        out.append(_definition(strict_value(line, at), at))
        at += len(line) + 1
    return out


def lost_in(tools: list[dict[str, Any]], kind: str, text: str) -> list[str]:
    """Returns what of definitions is not in their text: keys and types; none if all of it is."""
    try:
        return lost(tools, read_definitions(text, kind)) if kind in LOSSY else []
    except ValueError:  # a text in them spells what ends one
        return []


def come_back(tools: list[dict[str, Any]], kind: str, text: str, complete: bool) -> bool:
    """Returns whether TypeScript, or tags, can be read; with `complete`, whether they say all of
    definitions.

    False for any other `kind` of text.
    """
    if kind not in ("namespace", *LOSSY):
        return False
    try:
        definitions = read_definitions(text, kind)
    except DefinitionsError:
        return False
    return not (complete and kind in LOSSY and lost(tools, definitions))


def _definition(tool: Any, at: int) -> dict[str, Any]:
    if not isinstance(tool, dict):
        raise DefinitionsError(f"expected an object, got {a_kind_of(tool)}", at)
    name = function_of(tool).get("name")
    if not isinstance(name, str) or not name:
        raise DefinitionsError('a definition has no "name"', at)
    return tool


def parameters_of(tools: list[Any]) -> dict[str, Any]:
    """Returns the schemas of parameters by the names of tools, of those that are declared once."""
    schemas: dict[str, list[Any]] = {}
    for function in map(function_of, tools):
        if isinstance(function.get("name"), str):
            schemas.setdefault(function["name"], []).append(function.get("parameters"))
    return {
        name: declared[0]
        for name, declared in schemas.items()
        if len(declared) == 1 and isinstance(declared[0], dict)
    }
