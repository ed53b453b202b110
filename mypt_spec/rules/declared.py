"""Finds calls that do not fit the tools that their episode declares: names and arguments.

Input is the `Context` of an episode: its calls, in any kind of body, and the definitions that the
adapter reads of it. Output are findings. The linter's fast path proves the same of clean records
without this module (`mypt_lint.fast.clean_tools`).
"""

import json
from collections.abc import Iterator
from functools import lru_cache

from mypt_spec.bodies.definitions import parameters_of
from mypt_spec.bodies.json_body import NAME, Call, calls_in, names_called, value_in
from mypt_spec.bodies.json_schema import Patience, SchemaError, undeclared
from mypt_spec.bodies.strict_json import escape
from mypt_spec.bodies.tagged import function_of
from mypt_spec.episode import Episode, Part, Place
from mypt_spec.findings import Finding
from mypt_spec.rules.context import Context
from mypt_spec.table import LISTS, TokenTable

_LONG = 400  # code points of a body whose name is kept


def undeclared_calls(context: Context) -> Iterator[Finding]:
    """Finds calls of other tools than are declared (MYP313); silent where none is."""
    defined = frozenset(function_of(tool)["name"] for tool in context.tools)
    declared = context.limits.tools | declared_tools(context.episode, context.table) | defined
    for name, at in _called_names(context) if declared else ():
        if name not in declared:
            hint = f"declared are {', '.join(sorted(declared))}"
            yield Finding("MYP313", f"the tool {name!r} is declared nowhere", *at, help=hint)


def misfit_arguments(context: Context) -> Iterator[Finding]:
    """Finds arguments that do not fit their tool, by the user's limits or by the episode (MYP353).

    The limits come first. They need not name all arguments of a tool.
    """
    limits = {s.name: json.loads(s.arguments or "true") for s in context.limits.schemas}
    schemas, patience = parameters_of(context.tools) | limits, Patience()
    for call, at in _calls(context) if schemas else ():
        if call.name not in schemas:
            continue
        schema = schemas[call.name]
        try:
            misfits = patience.misfits(call.arguments, schema)
        except SchemaError as error:
            if error.in_use:  # any other fault was found in the definition itself
                text = f"the arguments of {call.name!r} cannot be checked: {error}"
                yield Finding("MYP128", text, *at)
            continue
        for key in () if call.name in limits else undeclared(call.arguments, schema):
            misfits.append((f"/{escape(key)}", f"it has no parameter {key!r}"))
        for pointer, message in misfits:
            place = at._replace(pointer=at.pointer + pointer, span=None) if at.pointer else at
            text = f"the arguments of {call.name!r} do not fit: {message}"
            yield Finding("MYP353", text, *place)


def declared_tools(episode: Episode, table: TokenTable) -> frozenset[str]:
    """Returns the names of the tools that an Episode declares in the text of its system prompt."""
    names = table.tool_names
    if names is None:
        return frozenset()
    declaring = [
        m.text for m in episode.messages if m.role in table.openers and table.openers[m.role].quotes
    ]
    return frozenset(name for text in declaring for name in names.findall(text))


def _called_names(context: Context) -> Iterator[tuple[str, Place]]:
    """Yields the names of called tools, and where they are; of bodies that are not legal, too."""
    for part in context.calls:
        body, in_tag = context.table.openers[part.kind].body, dict(part.attrs).get(NAME)
        names_of = _names if len(part.text) <= _LONG else names_called
        for n, name in enumerate([in_tag] if in_tag else names_of(part.text, body)):
            yield name, _inside(part, body, n)[0]


_names = lru_cache(maxsize=1000)(names_called)


def _calls(context: Context) -> Iterator[tuple[Call, Place]]:
    """Yields the calls of bodies that can be read, with the places of their arguments."""
    for part in context.calls:
        body = context.table.openers[part.kind].body
        try:
            calls = calls_in(value_in(part.text, body), body, part.attrs, context.types)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        for n, call in enumerate(calls):
            yield call, _inside(part, body, n)[1]


def _inside(part: Part, body: str, number: int) -> tuple[Place, Place]:
    """Returns the places of the name and the arguments of a call in a body."""
    at = part.at
    if body in LISTS and at.pointer:
        function = f"{at.pointer}/{number}/function"
        return Place(f"{function}/name"), Place(f"{function}/arguments")
    arguments = Place(f"{at.pointer}/arguments") if body == "function" and at.pointer else at
    return part.name_at or at, arguments
