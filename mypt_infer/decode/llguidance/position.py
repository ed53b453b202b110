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


def keys_before(text: bytes) -> frozenset[str]:
    """Returns the keys of the open object before the key that is open.

    >>> sorted(keys_before(b'{"a": {"x": 1}, "b": 2, "c'))
    ['a', 'b']
    """
    stack: list[list[str]] = []
    waits = False
    for match in _LEXEME.finditer(text):
        found = match[0]
        if found in b"{[":
            stack.append([])
            waits = found == b"{"
        elif found in b"}]":
            stack.pop()
        elif found in b",:":
            # A list has no keys, so whether one is due does not matter there.
            waits = found == b","
        elif waits and match[1]:
            stack[-1].append(json.loads(found))
        elif waits:
            return frozenset(stack[-1])
    return frozenset()


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
