"""Prove lines of JSONL clean without reading them into Episodes.

`Prover` may only call a line clean when `Checker.line` has nothing to say; where in doubt it does not, and the checker
decides. (A property test holds the two together.) How:

- msgspec decodes a block of lines and checks their schema in one pass; its types are derived from the adapter's `SCHEMA`.
- Every string of a line is counted. Valid JSON has exactly two unescaped quotes a string, so a key that stands twice, or
  one that msgspec skipped, shows as quotes that nobody accounts for.
- Placement, phase and names depend only on the *shape* of a record: the roles, which optional keys are there, which names
  are equal, which inline tags. A shape is checked once, by running the checker on a skeleton of it. So are head strings
  such as the system prompt, which repeat from line to line.
- Text without the first character of any tag holds no tag.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from mypt_spec.adapters.common import Reader, spelled
from mypt_spec.episode import Part
from mypt_spec.lint.check import Checker
from mypt_spec.lint.quotes import Lines, unescaped_quotes
from mypt_spec.lint.scan import BITS, Rows, Seen, compile_scan, strings_of
from mypt_spec.nearmiss import near_miss
from mypt_spec.schema import LANGUAGE, LIST, NAME, OBJECT, ROLE, STRING, Field

_TYPES: dict[str, Any] = {STRING: str, NAME: str, LANGUAGE: str, OBJECT: dict[str, Any], LIST: list[Any]}
_SAMPLES: dict[str, Any] = {STRING: "x", LANGUAGE: "en", OBJECT: {}, LIST: []}
_MEMO = 50_000
_SPACES = frozenset(c for c in map(chr, range(0x110000)) if c.isspace())


class Prover:
    """Proves lines clean for one checker. Remembers shapes and head strings, so it belongs to one thread."""

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        dialect = checker.dialect
        schema = dialect.adapter.SCHEMA
        self.key, self.table, self.limit = schema.messages, dialect.table, checker.limits.max_tokens
        self.roles = tuple((role, _ordered(fields)) for role, fields in schema.roles.items())
        self.top = _ordered(schema.top)
        types = [_struct(f"role_{role}", rows, {}, role) for role, rows in self.roles]
        messages: Any = list[reduce(or_, types)]  # type: ignore[misc]
        self.type = _struct("record", self.top, {self.key: messages}, None)
        decoder = msgspec.json.Decoder(self.type)
        self.decode: Callable[[bytes], Any] = decoder.decode
        self.decode_lines: Callable[[bytes], list[Any]] = decoder.decode_lines
        self.first = tuple(sorted(self.table.first_characters))
        self.scan = compile_scan(self.top, self.roles, types, self.key, self.first, Reader(self.table, []).inline, self._fine)
        self.shapes: dict[Any, bool] = {}
        self.heads: dict[tuple[str, str], tuple[bool, frozenset[str]]] = {}

    def unproved(self, data: bytes) -> tuple[int, list[tuple[int, bytes]]]:
        """The number of lines in a block, and those that are not proved clean, each with its index."""
        lines = Lines.of(data)
        if lines is not None:
            try:
                records = self.decode_lines(data)
                # No value can go on across `}` LF `{`, so as many records as lines means one on each line.
                if len(records) == len(lines.quotes):
                    doubtful = set(self.scan(records, lines.quotes)) | lines.longer_than(self._limit)
                    again = [(i, data[slice(*lines.span(i))]) for i in sorted(doubtful)]
                    return len(records), [(i, raw) for i, raw in again if not self.clean(raw)]
            except (ValueError, RecursionError):
                pass  # some line is not JSON, not of the schema or too deep: take them one by one
        every = data.split(b"\n")
        if not every[-1]:
            every.pop()
        return len(every), [(i, raw) for i, raw in enumerate(every) if not self.clean(raw)]

    def clean(self, raw: bytes) -> bool:
        """Whether a line (without its line end) is proved clean."""
        if raw[-1:] == b"\r" or (self._limit is not None and len(raw) > self._limit):
            return False
        try:
            quotes = unescaped_quotes(raw)
            if not self.scan([self.decode(raw)], [quotes]):
                return True
            if b'"_' not in raw:
                return False
            record, strings = self._without_metadata(raw)
            return not self.scan([record], [quotes - 2 * strings])
        except (ValueError, RecursionError):
            return False

    @property
    def _limit(self) -> int | None:
        """Lines up to this length cannot have too many tokens: a token is a byte or more, spaces in JSON may be added."""
        return None if self.limit is None else self.limit // 2

    def _without_metadata(self, raw: bytes) -> tuple[Any, int]:
        """The record without its metadata keys, and the number of strings in those."""
        record = msgspec.json.decode(raw)
        strings: list[str] = []
        for item in [record, *record.get(self.key, ())]:
            for key in [k for k in item if k[:1] == "_"]:
                strings_of({key: item.pop(key)}, strings, 0)
        return msgspec.convert(record, self.type), len(strings)

    def _fine(self, seen: Seen) -> bool:
        return self._plain(seen) and self._shape(seen) and self._heads(seen)

    def _plain(self, seen: Seen) -> bool:
        """No text is empty or blank, none holds a tag or almost one; no string in JSON holds a tag."""
        texts = [*seen.texts, *seen.names]
        if not _SPACES.isdisjoint([text[0] for text in texts if text]) and any(map(str.isspace, texts)):
            return False
        if not all(texts):
            return False
        content = "\n".join(texts)
        if self._suspicious(content) and (self.table.literals.search(content) or near_miss(content, self.table)):
            return False
        inner = "\n".join(seen.inner)
        return not (self._suspicious(inner) and self.table.literals.search(inner))

    def _suspicious(self, text: str) -> bool:
        return any([c in text for c in self.first])

    def _shape(self, seen: Seen) -> bool:
        key = tuple(seen.shape), tuple(seen.marks)
        known = self.shapes.get(key)
        if known is None:
            if len(self.shapes) >= _MEMO:
                self.shapes.clear()
            known = self.shapes[key] = self._says_nothing(self._skeleton(*key))
        return known

    def _heads(self, seen: Seen) -> bool:
        """Head strings are checked once each, in a record of this shape; calls only of tools that they declare."""
        declared = self.checker.limits.tools
        for head in seen.heads:
            known = self.heads.get(head) or self._head(head, seen)
            if not known[0]:
                return False
            declared = declared | known[1] if known[1] else declared
        return not declared or declared.issuperset(seen.names)

    def _head(self, head: tuple[str, str], seen: Seen) -> tuple[bool, frozenset[str]]:
        if len(self.heads) >= _MEMO // 100:
            self.heads.clear()
        names = self.table.tool_names
        tools = frozenset(names.findall(head[1])) if names else frozenset()
        skeleton = self._skeleton(tuple(seen.shape), tuple(seen.marks)) | {head[0]: head[1]}
        self.heads[head] = self._says_nothing(skeleton), tools
        return self.heads[head]

    def _says_nothing(self, record: dict[str, Any]) -> bool:
        """Whether the checker has nothing to say about a skeleton, whose tools all count as declared."""
        limits = replace(self.checker.limits, tools=frozenset(_name(i) for i in range(len(record[self.key]))), max_tokens=None)
        checker = replace(self.checker, limits=limits)
        return not checker.line(json.dumps(record).encode(), row=2, filename="")

    def _skeleton(self, shape: tuple[int, ...], marked: tuple[Any, ...]) -> dict[str, Any]:
        """The smallest record of a shape."""
        present, *codes = shape
        marks = iter(marked)
        record: dict[str, Any] = {
            key: _SAMPLES[spec.kind] for bit, (key, spec) in enumerate(self.top) if key != self.key and present >> bit & 1
        }
        messages: list[dict[str, Any]] = []
        for code in codes:
            role, rows = self.roles[code >> BITS]
            message: dict[str, Any] = {ROLE: role}
            for bit, (key, spec) in enumerate(rows):
                if not code >> bit & 1:
                    continue
                mark = next(marks) if spec.kind == NAME or spec.inline else None
                if spec.kind == NAME:
                    message[key] = _name(int(mark or 0))
                elif mark:
                    message[key] = spelled([Part(k, "x") for k in mark], self.table)
                else:
                    message[key] = _SAMPLES.get(spec.kind, {})
            messages.append(message)
        return record | {self.key: messages}


def _name(index: int) -> str:
    return f"n{index}"


def _ordered(fields: dict[str, Field]) -> Rows:
    """Required keys first, as msgspec wants them."""
    return tuple(sorted(fields.items(), key=lambda item: not item[1].required))


def _struct(name: str, rows: Rows, types: dict[str, Any], role: str | None) -> type:
    fields: list[Any] = []
    for key, spec in rows:
        kind = types.get(key, _TYPES.get(spec.kind, Any))
        fields.append((key, kind) if spec.required else (key, kind | UnsetType, UNSET))
    return msgspec.defstruct(name, fields, gc=False, tag_field=None if role is None else ROLE, tag=role)
