"""Where the beginning of a JSON text stops."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from mypt_spec.bodies.json_body import ID


class Position(NamedTuple):
    """Whether it is inside a key; and the member whose value it is in, "" for none."""

    key: bool
    member: str


_NAMED = re.compile(rb'"%b": "(?:[^"\\]|\\.)*", ' % ID.encode(), re.DOTALL)
_LEXEME = re.compile(rb'"(?:[^"\\]|\\.)*("?)|[{}\[\],:]', re.DOTALL)


def where(text: bytes) -> Position:
    """Reads the beginning of a JSON text; it may stop anywhere."""
    stack: list[
        tuple[bytes, str]
    ] = []  # open containers, each with the key of its last member, or of its own
    member, waits = "", False
    for match in _LEXEME.finditer(text):
        found = match[0]
        if found in b"{[":
            stack.append((found, member))
            waits = found == b"{"
        elif found in b"}]":
            member = stack.pop()[1] if stack else ""
        elif found == b",":
            waits = bool(stack) and stack[-1][0] == b"{"
        elif found == b":":
            waits = False
        elif waits and match[1]:
            member = json.loads(found)
        elif waits:
            return Position(True, "")
    return Position(False, member)


def last_call(text: bytes) -> bytes | None:
    """Of the beginning of a list of calls, what stands of the last one behind its id;

    None before that.
    """
    depth = begin = 0
    for match in _LEXEME.finditer(text):
        depth += (match[0] in b"{[") - (match[0] in b"}]")
        if match[0] == b"{" and depth == 2:
            begin = match.end()
    named = _NAMED.match(text, begin)
    if named:
        return text[named.end() :]
    return None if not begin or text[begin:].startswith(b'"%b"' % ID.encode()) else text[begin:]
