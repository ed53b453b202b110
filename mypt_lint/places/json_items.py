"""Lists the keys and values of a JSON text with their places, as far as the text is JSON.

All offsets are code points of the text, counted from 0, the end exclusive. Nothing here raises on
any text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from mypt_spec.bodies.strict_json import escape

_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(
    r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|Infinity)|NaN|true|false|null"
)
# The repeat is bounded because `re` keeps a way back for each round; `_string_end` repeats it.
_STRING_RUN = re.compile(r'[^"\\]*(?:\\.[^"\\]*){0,500}', re.DOTALL)
_DECODE = json.JSONDecoder(strict=False).decode


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A key or an index under a parent (the root has none); compared by identity."""

    parent: Node | None
    token: str | int = ""

    @property
    def pointer(self) -> str:
        """Returns the RFC 6901 pointer, on demand: all of a nested line take quadratic space."""
        tokens: list[str] = []
        node = self
        while node.parent is not None:
            tokens.append(escape(str(node.token)))
            node = node.parent
        return "".join("/" + token for token in reversed(tokens))


@dataclass(frozen=True, slots=True)
class Item:
    """A key or a value in the line: `line[start:end]` is its source, a string with its quotes.

    `duplicate` says that the object had this key before; it is set on the repeated key and on its
    value.
    """

    kind: Literal["key", "value"]
    start: int
    end: int
    node: Node = field(repr=False)
    duplicate: bool = False

    @property
    def pointer(self) -> str:
        return self.node.pointer


@dataclass(slots=True)
class _Open:
    """An array or object that is still open. `keys` is None for an array, else the keys so far."""

    start: int
    node: Node
    duplicate: bool
    keys: set[str] | None
    count: int = 0


def json_items(text: str) -> Iterator[Item]:
    """Yields every key and value of the JSON value that `text` begins with.

    A BOM and white space may come before it. A key comes before its value; a scalar comes in
    reading order; an array or object comes at its close, after all that it holds. NaN, Infinity and
    -Infinity are values. At the first fault the items end, so what is open then never comes. Not
    recursive: nesting is bounded by memory only.
    """
    stack: list[_Open] = []
    node, duplicate = Node(None), False
    at = _skip(text, 1 if text.startswith("\ufeff") else 0)
    while True:
        # Here a value begins at `at`; its node and flag are set.
        char = text[at : at + 1]
        start = at
        if char in ("{", "["):
            stack.append(_Open(at, node, duplicate, set() if char == "{" else None))
            at = _skip(text, at + 1)
        else:
            end = _string_end(text, at) if char == '"' else _scalar_end(text, at)
            if end < 0:
                return
            yield Item("value", start, end, node, duplicate)
            at = _skip(text, end)
        opened = char in ("{", "[")
        # Close what closes here, then step to the next member of what is still open.
        while stack:
            top = stack[-1]
            char = text[at : at + 1]
            if char == ("]" if top.keys is None else "}"):
                yield Item("value", top.start, at + 1, top.node, top.duplicate)
                stack.pop()
                at = _skip(text, at + 1)
                opened = False
                continue
            if not opened:
                if char != ",":
                    return
                at = _skip(text, at + 1)
            break
        else:
            return
        if top.keys is None:
            node, duplicate = Node(top.node, top.count), False
            top.count += 1
            continue
        end = _string_end(text, at) if text.startswith('"', at) else -1
        if end < 0:
            return
        key = _decode(text[at:end])
        node, duplicate = Node(top.node, key), key in top.keys
        top.keys.add(key)
        yield Item("key", at, end, node, duplicate)
        at = _skip(text, end)
        if not text.startswith(":", at):
            return
        at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _scalar_end(text: str, at: int) -> int:
    """Returns the end of the number or word at `at`; -1 if there is none."""
    scalar = _SCALAR.match(text, at)
    return scalar.end() if scalar else -1


def _string_end(text: str, at: int) -> int:
    """Returns the offset after the closing quote of the string that opens at `at`, or -1."""
    at += 1
    while True:
        run = _STRING_RUN.match(text, at)
        end = run.end() if run else at
        if text.startswith('"', end):
            return end + 1
        if end == at:
            return -1
        at = end


def _decode(literal: str) -> str:
    """Returns the string of a literal; with a faulty escape in it, its bare source."""
    if "\\" not in literal:
        return literal[1:-1]
    try:
        return str(_DECODE(literal))
    except ValueError:
        return literal[1:-1]
