"""The JSON bodies inside a serialised episode: tool calls and tool results. Design section 4.1."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from mypt_spec.episode import Place
from mypt_spec.findings import Finding, Fix
from mypt_spec.jsonvalue import Fault, canonical, faults, kind_of, loads
from mypt_spec.tokens import CALLS

NAME = "name"
_RESERVED = 'an argument is called "name": it would overwrite the name of the tool'
ARGUMENTS = "arguments"
_CURES = {
    "call": "write one JSON object, the name first",
    "arguments": "write the arguments as one JSON object",
    "function": 'write {"name": ..., "arguments": {...}}',
}


class Body(NamedTuple):
    """A body as read: its canonical text (None when it is not a legal body), its value, and what was found."""

    text: str | None
    value: Any
    findings: list[Finding]


def call_text(name: str, arguments: dict[str, Any], literals: re.Pattern[str], kind: str = "call") -> str:
    """The canonical body of a call: the name first, then the arguments, which in a "call" have no key "name"."""
    return canonical({NAME: name, ARGUMENTS: arguments} if kind == "function" else {NAME: name, **arguments}, literals)


def read_body(text: str, kind: str, literals: re.Pattern[str], at: Place, name_at: Place | None = None) -> Body:
    """Read the body of a block whose `body` column is `kind` ("json", "call", "arguments" or "function").

    `name_at` is where a call's name was read, if elsewhere.
    """
    what = "tool call" if kind in CALLS else "tool result"
    try:
        value = loads(text)
    except Fault as fault:
        code = "MYP304" if fault.code == "MYP001" else fault.code
        cure = _CURES.get(kind, "write one JSON value; a string in quotes")
        return Body(None, None, [_at(code, f"the {what} is {fault.message}", at, fault.offset, cure=cure)])
    found = [_at(*_in_body(f, kind), at) for f in faults(value)]
    if kind in CALLS:
        found += _call_faults(value, kind, at, name_at or at)
    if any(f.severity == "error" for f in found):
        return Body(None, value, found)
    if kind in ("call", "function") and next(iter(value)) != NAME:
        value = {NAME: value[NAME], **value}
        clean = canonical(value, literals)
        found.append(_fixable("MYP309", 'the call does not begin with "name"', at, clean))
    else:
        clean = canonical(value, literals)
        if clean != text:
            found.append(_fixable("MYP308", f"the {what} is not canonical JSON", at, clean))
    return Body(clean, value, found)


def _in_body(fault: Fault, kind: str) -> tuple[str, str]:
    if kind == "call" and fault.code == "MYP004" and fault.pointer == f"/{NAME}":
        return "MYP307", _RESERVED
    return fault.code, fault.message


def _call_faults(value: Any, kind: str, at: Place, name_at: Place) -> list[Finding]:
    if not isinstance(value, dict):
        return [_at("MYP305", f"the tool call is {kind_of(value)}, expected an object", at)]
    if kind == "arguments":
        return [_at("MYP307", _RESERVED, at, cure="the name stands in the tag; give the argument another name")] * (NAME in value)
    if not isinstance(value.get(NAME), str) or not value[NAME]:
        got = kind_of(value[NAME]) if NAME in value and value[NAME] != "" else "nothing"
        return [_at("MYP306", f'the tool call has no "name": expected a string, got {got}', name_at)]
    return _function_faults(value, at) if kind == "function" else []


def _function_faults(value: dict[str, Any], at: Place) -> list[Finding]:
    found = []
    if not isinstance(value.get(ARGUMENTS), dict):
        got = kind_of(value[ARGUMENTS]) if ARGUMENTS in value else "nothing"
        cure = 'write {} where there are none: "arguments": {}'
        found.append(_at("MYP332", f'the tool call has no "{ARGUMENTS}": expected an object, got {got}', at, cure=cure))
    extra = [k for k in value if k not in (NAME, ARGUMENTS)]
    if extra:
        cure = f'arguments stand inside "{ARGUMENTS}"'
        found.append(_at("MYP333", f'the tool call has a key {extra[0]!r} beside "{NAME}" and "{ARGUMENTS}"', at, cure=cure))
    return found


def _at(code: str, message: str, at: Place, offset: int | None = None, *, cure: str = "") -> Finding:
    span = at.span
    if offset is not None and span is not None:
        start = min(span[0] + offset, span[1])
        span = (start, min(start + 1, span[1]))
    return Finding(code, message, at.pointer, span, help=cure)


def _fixable(code: str, message: str, at: Place, clean: str) -> Finding:
    fix = None
    if not at.pointer and at.span is not None:
        fix = Fix("write it as canonical JSON", True, edits=((*at.span, clean),))
    return Finding(code, message, at.pointer, at.span, help=f"write {_shorten(clean)}", fix=fix)


def _shorten(text: str) -> str:
    return text if len(text) <= 80 else text[:80] + "…"
