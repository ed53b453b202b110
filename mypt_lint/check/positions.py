"""Turns a pointer and a span into columns of one physical line of JSON.

All offsets are code points of the line, counted from 0, the end exclusive. Only lines with findings
pay for this. Nothing here raises on any text: of a line that is not JSON, the items up to the fault
are found.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from mypt_lint.check.members import Member, Members
from mypt_spec.bodies.strict_json import escape, unescape

_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(
    r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|Infinity)|NaN|true|false|null"
)
# The repeat is bounded because `re` keeps a way back for each round; `_string_end` repeats it.
_STRING_RUN = re.compile(r'[^"\\]*(?:\\.[^"\\]*){0,500}', re.DOTALL)
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL
)
_DECODE = json.JSONDecoder(strict=False).decode


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A place in the value: a key or an index under a parent. The root has no parent.

    Compared by identity.
    """

    parent: Node | None
    token: str | int = ""

    @property
    def pointer(self) -> str:
        """Returns the RFC 6901 pointer.

        It is built on demand: all pointers of a deeply nested line take space quadratic in its
        length.
        """
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


def scan(text: str) -> Iterator[Item]:
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
        fresh = char in ("{", "[")
        # Close what closes here, then step to the next member of what is still open.
        while stack:
            top = stack[-1]
            char = text[at : at + 1]
            if char == ("]" if top.keys is None else "}"):
                yield Item("value", top.start, at + 1, top.node, top.duplicate)
                stack.pop()
                at = _skip(text, at + 1)
                fresh = False
                continue
            if not fresh:
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


class Places:
    """The places of one line, for any number of findings on it.

    A line that is not JSON is scanned as a whole, once. `unique`: the line is known to be JSON in
    which no key occurs twice.
    """

    def __init__(self, text: str, *, unique: bool = False) -> None:
        self.text = text
        self._members = Members(text, unique=unique)
        self._found: dict[str, tuple[Member, bool] | None] = {}
        self._scanned = False
        self._root: Node | None = None
        self._children: dict[tuple[Node, str], Node] = {}
        self._values: dict[Node, Item] = {}
        self._keys: dict[Node, Item] = {}
        self._repeats: dict[tuple[Node, str], Item] = {}
        self._strings: dict[int, _StringColumns] = {}

    def _scan(self) -> None:
        self._scanned = True
        for item in scan(self.text):
            self._link(item.node)
            if item.kind == "value":
                self._values[item.node] = item
                continue
            self._keys[item.node] = item
            if item.duplicate and item.node.parent is not None:
                self._repeats.setdefault((item.node.parent, str(item.node.token)), item)

    def _link(self, node: Node) -> None:
        """Makes `node` known to its ancestors.

        A repeated key is a new node, so the last one wins, as in json.loads.
        """
        while node.parent is not None:
            place = (node.parent, str(node.token))
            if self._children.get(place) is node:
                return
            self._children[place] = node
            node = node.parent
        self._root = node

    def locate(
        self, pointer: str, span: tuple[int, int] | None = None, *, on_key: bool = False
    ) -> tuple[int, int]:
        """Returns the (start, end) of a pointer in the line.

        Without a span it is the whole key or value, a string with its quotes. With one it is the
        source of those decoded code points of the string; a span that reaches beyond the string is
        clamped, and on any other value it is ignored. A pointer that names nothing has the place of
        its nearest ancestor, or, without one, of the line without its outer white space. Of a
        repeated key, the value is the last one and the key the second one.
        """
        if pointer not in self._found:
            self._found[pointer] = self._members.find(_tokens(pointer))
        found = self._found[pointer]
        if found is not None:
            member, exact = found
            if exact and on_key and member.key is not None:
                start, end = member.key
            else:
                start, end = member.start, member.end
            whole = span is None or not exact or not self.text.startswith('"', start)
            return (start, end) if whole or span is None else self._columns(start, end, span)
        if not self._scanned:
            self._scan()
        tokens = _tokens(pointer)
        node = self._root
        item = self._values.get(node) if node else None
        for depth, token in enumerate(tokens, 1):
            parent = node
            node = self._children.get((parent, token)) if parent else None
            if parent is None or node is None:
                break
            if on_key and depth == len(tokens) and node in self._keys:
                item = self._repeats.get((parent, token), self._keys[node])
            else:
                item = self._values.get(node, item)
        if item is None:
            inner = self.text.strip()
            start = self.text.find(inner)
            return start, start + len(inner)
        if span is None or node is None or not self.text.startswith('"', item.start):
            return item.start, item.end
        return self._columns(item.start, item.end, span)

    def _columns(self, start: int, end: int, span: tuple[int, int]) -> tuple[int, int]:
        if start not in self._strings:
            self._strings[start] = _StringColumns(self.text, start, end)
        return self._strings[start].of(span)


def _tokens(pointer: str) -> list[str]:
    tokens = pointer.split("/")[1:]
    return [unescape(token) for token in tokens] if "~" in pointer else tokens


def locate(
    text: str, pointer: str, span: tuple[int, int] | None = None, on_key: bool = False
) -> tuple[int, int]:
    """Returns the place of a single finding; for several on one line, keep one `Places`."""
    return Places(text).locate(pointer, span, on_key=on_key)


def string_columns(text: str, start: int, end: int, span: tuple[int, int]) -> tuple[int, int]:
    """Returns the source of the decoded code points `span` of the JSON string `text[start:end]`.

    The string is a literal with its quotes. An escape is one code point, and so is a pair of
    surrogate escapes. The span is clamped to the string.
    """
    return _StringColumns(text, start, end).of(span)


class _StringColumns:
    """The columns of one JSON string, for any number of spans in it: each escape is read once."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self._end = end - 1
        self._escapes = _ESCAPE.finditer(text, start + 1, end - 1)
        self._decoded: list[int] = []  # of each escape read so far, its decoded offset
        self._shrinks = [start + 1]  # raw offset minus decoded offset, up to each escape

    def of(self, span: tuple[int, int]) -> tuple[int, int]:
        first, last = max(span[0], 0), max(span[0], span[1], 0)
        return self._column(first), self._column(last)

    def _column(self, target: int) -> int:
        while not self._decoded or self._decoded[-1] < target:
            escape = next(self._escapes, None)
            if escape is None:
                break
            self._decoded.append(escape.start() - self._shrinks[-1])
            self._shrinks.append(self._shrinks[-1] + len(escape[0]) - 1)
        return min(target + self._shrinks[bisect_left(self._decoded, target)], self._end)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _scalar_end(text: str, at: int) -> int:
    """Returns the end of the number or word at `at`; -1 if there is none."""
    found = _SCALAR.match(text, at)
    return found.end() if found else -1


def _string_end(text: str, at: int) -> int:
    """Returns the offset after the closing quote of the string that opens at `at`, or -1."""
    at += 1
    while True:
        found = _STRING_RUN.match(text, at)
        end = found.end() if found else at
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
