"""Reads and writes declared tools as text: JSON lines, a JSON array, TypeScript, nested tags.

Input are definitions as records have them, or the text of a block and its kind of body; output is
canonical text, or the definitions. JSON keeps each definition as it was given, keys in order; of
TypeScript, a "namespace" keeps all, "signatures" what `lost_in` does not name, and so "tool_tags".
Other layouts of JSON are patterns, such as "[{function:compact}]".
"""

import json
import re
from collections.abc import Iterator
from typing import Any, cast

from mypt_spec.bodies.read_signatures import read_signatures
from mypt_spec.bodies.signatures import lost, write_signatures
from mypt_spec.bodies.strict_json import DefinitionsError, a_kind_of, canonical, strict_value
from mypt_spec.bodies.tagged import function_of
from mypt_spec.bodies.tool_tags import read_tool_tags, write_tool_tags
from mypt_spec.bodies.typescript import read_namespace, write_namespace
from mypt_spec.memo import lazy_re
from mypt_spec.table import DEFINITIONS, TOOL_TAGS

WRITTEN = "definitions that a template wrote"
EARLY = "the tools are not before the last question"
# What kinds of body begin with that may not keep all of a definition.
LOSSY = ("signatures", *TOOL_TAGS, "template", "{function", "[{function")
_BLANK_LINE = "\n\n"  # after each definition before a question
_IN_QUESTION = "{tool:4}" + _BLANK_LINE
_JSON = {"tool_lines": "{tool}\n", "tool_list": "[{tool}]"}  # other names of kinds in braces
# In an array or not, what of a tool, indented by so many spaces or compact, what is between two.
_PATTERN = lazy_re(r"(\[)?\{(tool|function)(?::(compact|[1-8]))?\}((?(1)\]|.*))", re.DOTALL)
_READERS = {"namespace": read_namespace, "signatures": read_signatures}
_READERS |= dict.fromkeys(TOOL_TAGS, read_tool_tags)
_scan = json.JSONDecoder().raw_decode


def defines_tools(kind: str) -> bool:
    """Returns whether a kind of body declares tools."""
    return kind in DEFINITIONS or layout_of(kind) != ()


def layout_of(kind: str) -> tuple[str, ...]:
    """Returns the parts of a kind of JSON, as `_PATTERN` says; none of other kinds."""
    match = _PATTERN.fullmatch(_JSON.get(kind, kind))
    return match.groups("") if match is not None else ()


def write_definitions(tools: list[dict[str, Any]], kind: str, literals: re.Pattern[str]) -> str:
    """Returns definitions as the body of a block, in canonical form. `literals` matches tags."""
    if kind == "namespace":
        return write_namespace(tools, literals)
    if kind == "signatures":
        return write_signatures(tools)
    if kind in TOOL_TAGS:
        return write_tool_tags(tools, literals, kind != "tool_tags")
    if kind == "template":
        from mypt_spec.templates.sandbox import ToolTemplate

        return cast(ToolTemplate, kind).write(tools)
    array, item, how, between = layout_of(kind)
    values = [function_of(tool) for tool in tools] if item == "function" else tools
    return between.join(canonical(v, literals, how) for v in ([values] if array else values))


def blocks_of(
    tools: list[dict[str, Any]], kind: str, literals: re.Pattern[str]
) -> list[tuple[list[dict[str, Any]], str]]:
    """Returns the tools of each block that defines them, and the text that it holds."""
    lists = [[tool] for tool in tools] if getattr(kind, "each", False) else [tools]
    return [(some, write_definitions(some, kind, literals)) for some in lists]


def write_indented(tools: list[dict[str, Any]], literals: re.Pattern[str]) -> str:
    """Returns definitions as text before a question: each indented, then an empty line."""
    return write_definitions(tools, _IN_QUESTION, literals) + _BLANK_LINE


def read_indented(
    text: str, intro: str, literals: re.Pattern[str]
) -> tuple[list[dict[str, Any]], str]:
    """Returns (definitions, question) of a text that begins as `write_indented` writes them after
    the `intro`."""
    out: list[dict[str, Any]] = []
    question = text.removeprefix(intro) if text.startswith(intro) else ""
    while question.startswith("{"):
        end = question.find("\n}" + _BLANK_LINE) + len("\n}")
        try:
            tool = _definition(strict_value(question[:end], 0), 0)
        except DefinitionsError:
            break
        if write_definitions([tool], _IN_QUESTION, literals) != question[:end]:
            break
        out.append(tool)
        question = question[end + len(_BLANK_LINE) :]
    return (out, question) if out else ([], text)


def read_definitions(text: str, kind: str) -> list[dict[str, Any]]:
    """Returns the definitions in the body of a block. Raises DefinitionsError."""
    if kind == "template":
        raise DefinitionsError(f"no record can say this: {WRITTEN}")
    if kind in _READERS:
        return _READERS[kind](text)
    array, item, _, between = layout_of(kind)
    tools = [(strict_value(text, 0), 0)] if array else [*_values(text, between)]
    if array:
        tools = [(tool, 0) for tool in tools[0][0]] if isinstance(tools[0][0], list) else []
        if not tools:
            raise DefinitionsError("expected a JSON array of them", 0)
    if item == "function":
        tools = [({"type": "function", "function": tool}, at) for tool, at in tools]
    return [_definition(tool, at) for tool, at in tools]


def _values(text: str, between: str) -> Iterator[tuple[Any, int]]:
    """Yields the JSON values in a text with their offsets. Raises DefinitionsError."""
    at = 0
    while True:
        try:
            end = _scan(text, at)[1]
        except (ValueError, RecursionError):
            end = len(text)
        yield strict_value(text[at:end], at), at
        if end == len(text):
            return
        if not text.startswith(between, end):
            raise DefinitionsError(f"expected {between!r} after a definition", end)
        at = end + len(between)


def lost_in(tools: list[dict[str, Any]], kind: str, text: str) -> list[str]:
    """Returns what of definitions is not in their text: keys and types; none if all of it is."""
    try:
        return lost(tools, read_definitions(text, kind)) if kind.startswith(LOSSY) else []
    except ValueError:  # a text in them spells what ends one
        return []


def come_back(tools: list[dict[str, Any]], kind: str, text: str, complete: bool) -> bool:
    """Returns whether TypeScript, or tags, can be read; with `complete`, whether they say all of
    definitions.

    False for any other `kind` of text.
    """
    if not kind.startswith(("namespace", *LOSSY)):
        return False
    try:
        definitions = read_definitions(text, kind)
    except DefinitionsError:
        return False
    return not (complete and kind.startswith(LOSSY) and lost(tools, definitions))


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
