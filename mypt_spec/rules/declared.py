"""Finds calls that do not fit the tools that their own episode declares: names and arguments.

Input are the definitions of an episode and the `Context` of its calls, in any kind of body. Output
are findings. The linter's fast path proves the same of clean records without this module
(`mypt_spec.bodies.fitting`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mypt_spec.bodies.definitions import function_of, parameters_of
from mypt_spec.bodies.json_body import Call, calls_in, value_in
from mypt_spec.bodies.json_schema import Patience, SchemaError
from mypt_spec.episode import Place
from mypt_spec.findings import Finding
from mypt_spec.rules.context import Context
from mypt_spec.rules.payload import named_calls, undeclared
from mypt_spec.table import LISTS


def misfit_calls(context: Context, tools: list[dict[str, Any]]) -> Iterator[Finding]:
    """Finds calls of other tools (MYP313), and arguments that do not fit (MYP353).

    Schemas of the user's limits have a check of their own and come before those of the episode.
    """
    made = list(_calls(context))
    names: Iterable[tuple[str, Place]] = [(call.name, at) for call, at, _ in made]
    if not any(context.table.openers[part.kind].body in LISTS for part in context.calls):
        names = named_calls(context)
    own = frozenset(function_of(tool)["name"] for tool in tools)
    yield from undeclared(names, context.limits.tools | own)
    schemas, patience = parameters_of(tools), Patience()
    for name in {schema.name for schema in context.limits.schemas}:
        schemas.pop(name, None)
    for call, _, at in made:
        if call.name not in schemas:
            continue
        try:
            found = patience.misfits(call.arguments, schemas[call.name])
        except SchemaError:
            continue  # the check of definitions says so
        for pointer, message in found:
            place = at._replace(pointer=at.pointer + pointer, span=None) if at.pointer else at
            what = f"the arguments of {call.name!r} do not fit: {message}"
            yield Finding("MYP353", what, *place)


def _calls(context: Context) -> Iterator[tuple[Call, Place, Place]]:
    """Yields the calls of bodies that can be read, with the places of their names and arguments."""
    for part in context.calls:
        body = context.table.openers[part.kind].body
        try:
            calls = calls_in(value_in(part.text, body), body, part.attrs, context.types)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        for n, call in enumerate(calls):
            at = part.at
            if body in LISTS and at.pointer:
                at = Place(f"{at.pointer}/{n}/function")
                yield call, Place(f"{at.pointer}/name"), Place(f"{at.pointer}/arguments")
            else:
                inside = f"{at.pointer}/arguments" if body == "function" and at.pointer else ""
                yield call, part.name_at or at, Place(inside) if inside else at
