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
_QUOTE = ord('"')
_LEXEME = re.compile(rb'"(?:[^"\\]|\\.)*("?)|[{}\[\],:]', re.DOTALL)


class Reading(NamedTuple):
    """What was read of the beginning of a JSON text, as far as its lexemes are complete.

    `upto`: how many bytes that is. `stack`: the open containers, each with the key whose value it
    is, and the keys that it has, as they are written. `member`: the key whose value comes, or "".
    `waits`: a key comes.

    >>> first = Reading().on(b'{"name": "f", "a')
    >>> first.upto, first.position(b'{"name": "f", "a')
    (13, Position(key=True, member=''))
    >>> first.on(b'{"name": "f", "ab": 3').position(b'{"name": "f", "ab": 3')
    Position(key=False, member='ab')
    """

    upto: int = 0
    stack: tuple[tuple[bytes, str, tuple[bytes, ...]], ...] = ()
    member: str = ""
    waits: bool = False

    def on(self, text: bytes) -> Reading:
        """Returns what was read of a longer text, whose first `upto` bytes are the same."""
        upto, stack, member, waits = self.upto, list(self.stack), self.member, self.waits
        for match in _LEXEME.finditer(text, self.upto):
            piece = match[0]
            if piece[0] == _QUOTE and not match[1]:
                break
            upto = match.end()
            if piece in b"{[":
                stack.append((piece, member, ()))
                waits = piece == b"{"
            elif piece in b"}]":
                member = stack.pop()[1] if stack else ""
            elif piece == b",":
                waits = bool(stack) and stack[-1][0] == b"{"
            elif piece == b":":
                waits = False
            elif waits:
                member = json.loads(piece)
                if stack:
                    bracket, outer, keys = stack[-1]
                    stack[-1] = bracket, outer, (*keys, piece[1:-1])
        return Reading(upto, tuple(stack), member, waits)

    def position(self, text: bytes) -> Position:
        key = self.waits and text.find(b'"', self.upto) >= 0
        return Position(True, "") if key else Position(False, self.member)

    @property
    def keys(self) -> tuple[bytes, ...]:
        """Returns the keys that the innermost container has, as they are written."""
        return self.stack[-1][2] if self.stack else ()


def last_call(text: bytes) -> bytes | None:
    """Returns the text of the last call in a list of calls, after its id; None before that."""
    depth = begin = 0
    for match in _LEXEME.finditer(text):
        depth += (match[0] in b"{[") - (match[0] in b"}]")
        if match[0] == b"{" and depth == 2:
            begin = match.end()
    named_call = _NAMED.match(text, begin)
    if named_call:
        return text[named_call.end() :]
    return None if not begin or text[begin:].startswith(b'"%b"' % ID.encode()) else text[begin:]
