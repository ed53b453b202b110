"""Finds the position at which the beginning of a JSON text stops.

Input: bytes that may stop anywhere. Output: whether that is in a key, and in which member's value.
The engine needs this to know which rules of a schema bind the next token.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from mypt_spec.bodies.json_body import ID


class Position(NamedTuple):
    """`key`: the position is inside a key. `member`: the key whose value it is in, "" for none."""

    key: bool
    member: str


_NAMED = re.compile(rb'"%b": "(?:[^"\\]|\\.)*", ' % ID.encode(), re.DOTALL)
_LEXEME = re.compile(rb'"(?:[^"\\]|\\.)*("?)|[{}\[\],:]', re.DOTALL)


def where(text: bytes) -> Position:
    """Returns the position at which the beginning of a JSON text stops.

    >>> where(b'{"name": "f", "a": 3')
    Position(key=False, member='a')
    >>> where(b'{"name": "f", "a')
    Position(key=True, member='')
    """
    # Open containers, each with the key whose value it is.
    stack: list[tuple[bytes, str]] = []
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
    """Returns the text of the last call in a list of calls, after its id; None before that."""
    depth = begin = 0
    for match in _LEXEME.finditer(text):
        depth += (match[0] in b"{[") - (match[0] in b"}]")
        if match[0] == b"{" and depth == 2:
            begin = match.end()
    named = _NAMED.match(text, begin)
    if named:
        return text[named.end() :]
    return None if not begin or text[begin:].startswith(b'"%b"' % ID.encode()) else text[begin:]
