"""Prove lines of JSONL clean without reading them into Episodes.

`Prover.clean(line)` may only say yes when `Checker.line` has nothing to say; where in doubt it says no, and the checker
decides. (A property test holds the two together.) How:

- msgspec decodes and checks the schema in one pass; its types are derived from the adapter's `SCHEMA`.
- Placement, phase and names depend only on the *shape* of a record: the roles, which optional keys are there, which names
  are equal, which inline tags. A shape is checked once, by running the checker on a skeleton of it. So are head strings
  such as the system prompt, which repeat from line to line.
- Every string of the line is counted. Valid JSON has exactly two unescaped quotes a string, so a key that stands twice, or
  one that msgspec skipped, shows as quotes that nobody accounts for.
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
from mypt_spec.episode import Part, Place
from mypt_spec.lint.check import Checker
from mypt_spec.nearmiss import near_miss
from mypt_spec.schema import LANGUAGE, LIST, NAME, OBJECT, ROLE, STRING, Field

_TYPES: dict[str, Any] = {STRING: str, NAME: str, LANGUAGE: str, OBJECT: dict[str, Any], LIST: list[Any]}
_DEPTH = 60  # deeper values are left to the checker
_MEMO = 50_000
_STRINGS = (STRING, NAME, LANGUAGE)
_BITS = 12  # keys a message can have; the role's number stands above them
_Rows = tuple[tuple[str, Field], ...]
_SAMPLES: dict[str, Any] = {STRING: "x", LANGUAGE: "en", OBJECT: {}, LIST: []}


class Prover:
    """Proves lines clean for one checker. Remembers shapes and head strings, so it belongs to one thread."""

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        dialect = checker.dialect
        schema = dialect.adapter.SCHEMA
        self.key, self.table = schema.messages, dialect.table
        self.roles = tuple((role, _ordered(fields)) for role, fields in schema.roles.items())
        self.top = _ordered(schema.top)
        types = [_struct(f"role_{role}", rows, {}, role) for role, rows in self.roles]
        messages: Any = list[reduce(or_, types)]  # type: ignore[misc]
        self.type = _struct("record", self.top, {self.key: messages}, None)
        self.decode: Callable[[bytes], Any] = msgspec.json.Decoder(self.type).decode
        first = sorted(self.table.first_characters)
        one = first[0]
        self.suspicious: Callable[[str], bool] = (
            (lambda text: one in text) if len(first) == 1 else (lambda text: any(c in text for c in first))
        )
        self.look = _compile(self.top, self.roles, types, self.key, self.suspicious, Reader(self.table, []).inline)
        self.shapes: dict[Any, bool] = {}
        self.heads: dict[tuple[str, str], tuple[bool, frozenset[str]]] = {}

    def clean(self, raw: bytes, quotes: int | None = None) -> bool:
        """Whether the line (without its line end) is proved clean. `quotes`: its unescaped quotes, if counted already."""
        limit = self.checker.limits.max_tokens
        if raw[-1:] == b"\r" or (limit is not None and 2 * len(raw) > limit):
            return False
        if quotes is None:
            quotes = unescaped_quotes(raw)
        try:
            seen = self.look(self.decode(raw))
            if 2 * seen.strings != quotes and b'"_' in raw:
                record, extra = self._without_metadata(raw)
                seen = self.look(record)
                seen.strings += extra
        except (ValueError, RecursionError):  # not JSON, not the schema, or too deep
            return False
        return 2 * seen.strings == quotes and self._plain(seen) and self._shape(seen) and self._heads(seen)

    def _without_metadata(self, raw: bytes) -> tuple[Any, int]:
        """The record without its metadata keys, and the number of strings in those."""
        record = msgspec.json.decode(raw)
        strings: list[str] = []
        for item in [record, *record.get(self.key, ())]:
            for key in [k for k in item if k[:1] == "_"]:
                _strings({key: item.pop(key)}, strings, 0)
        return msgspec.convert(record, self.type), len(strings)

    def _plain(self, seen: _Seen) -> bool:
        """No text is empty or blank, none holds a tag or almost one; no string in JSON holds a tag."""
        texts = [*seen.texts, *seen.names]
        if not all(texts) or any(map(str.isspace, texts)):
            return False
        content = "\n".join(texts)
        if self.suspicious(content) and (self.table.literals.search(content) or near_miss(content, self.table)):
            return False
        inner = "\n".join(seen.inner)
        return not (self.suspicious(inner) and self.table.literals.search(inner))

    def _shape(self, seen: _Seen) -> bool:
        key = tuple(seen.shape), tuple(seen.marks)
        known = self.shapes.get(key)
        if known is None:
            if len(self.shapes) >= _MEMO:
                self.shapes.clear()
            known = self.shapes[key] = self._says_nothing(self._skeleton(*key))
        return known

    def _heads(self, seen: _Seen) -> bool:
        """Head strings are checked once each, in a record of this shape; calls only of tools that they declare."""
        declared = set(self.checker.limits.tools)
        for head in seen.heads:
            known = self.heads.get(head)
            if known is None:
                if len(self.heads) >= _MEMO // 100:
                    self.heads.clear()
                names = self.table.tool_names
                tools = frozenset(names.findall(head[1])) if names else frozenset()
                skeleton = self._skeleton(tuple(seen.shape), tuple(seen.marks)) | {head[0]: head[1]}
                known = self.heads[head] = self._says_nothing(skeleton), tools
            if not known[0]:
                return False
            declared |= known[1]
        return not declared or declared.issuperset(seen.names)

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
            role, rows = self.roles[code >> _BITS]
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


class _Seen:
    """What one pass over a record saw. `texts` are contents, `inner` the strings inside JSON values."""

    __slots__ = ("heads", "inner", "marks", "names", "shape", "strings", "texts")

    def __init__(self) -> None:
        self.strings = 0
        self.shape: list[int] = []
        self.marks: list[Any] = []
        self.texts: list[str] = []
        self.inner: list[str] = []
        self.names: dict[str, int] = {}
        self.heads: list[tuple[str, str]] = []


def _compile(
    top: _Rows,
    roles: tuple[tuple[str, _Rows], ...],
    types: list[type],
    key: str,
    suspicious: Callable[[str], bool],
    inline: Callable[..., list[Part]],
) -> Callable[[Any], _Seen]:
    """A function `look(record) -> _Seen`, written out for this schema: a loop over field descriptions takes three times as long.

    The shape is the top-level keys that are present, then for each message its role and present keys. Marks are, in order,
    the number of each name, and for each string that may hold inline tags the kinds of its parts (0: plain).
    """
    code = ["def look(record):", " seen = Seen()", " names, texts, inner, marks = seen.names, seen.texts, seen.inner, seen.marks"]
    code += [" shape, text, strings, have = seen.shape, texts.append, 1, 0"]
    for bit, (name, _) in enumerate(top):
        if name != key:
            code += [f" v = record.{name}", " if v is not UNSET:"]
            code += [f"  have |= {1 << bit}; strings += 2; seen.heads.append(({name!r}, v))"]
    code += [" shape.append(have)", f" for m in record.{key}:", "  kind = m.__class__"]
    for number, (_, rows) in enumerate(roles):
        required = [spec for _, spec in rows if spec.required]
        always = number << _BITS | sum(1 << bit for bit, (_, spec) in enumerate(rows) if spec.required)
        count = 2 + sum(1 + (spec.kind in _STRINGS) for spec in required)
        code += [f"  {'el' if number else ''}if kind is types[{number}]:", f"   strings += {count}", f"   have = {always}"]
        for bit, (name, spec) in enumerate(rows):
            code.append(f"   v = m.{name}")
            pad = "   "
            if not spec.required:
                pad = "    "
                code += ["   if v is not UNSET:", f"    have |= {1 << bit}; strings += {1 + (spec.kind in _STRINGS)}"]
            if spec.kind == NAME:
                code.append(f"{pad}marks.append(names.setdefault(v, len(names)))")
            elif spec.inline:
                code += [f"{pad}if suspicious(v):", f"{pad} parts = inline(v, Place(), *{spec.inline!r})"]
                code += [f"{pad} marks.append(tuple([p.kind for p in parts])); texts += [p.text for p in parts]"]
                code += [f"{pad}else:", f"{pad} marks.append(0); text(v)"]
            elif spec.kind in _STRINGS:
                code.append(f"{pad}text(v)")
            else:
                for word in spec.reserved:
                    code.append(f"{pad}if {word!r} in v: raise ValueError({word!r})")
                code.append(f"{pad}collect(v, inner, 0)")
        code.append("   shape.append(have)")
    code += [" seen.strings = strings + len(inner)", " return seen"]
    scope = {"Seen": _Seen, "UNSET": UNSET, "Place": Place, "types": types, "suspicious": suspicious, "inline": inline}
    scope["collect"] = _strings
    exec("\n".join(code), scope)  # built from the adapter's schema alone, never from data
    return scope["look"]  # type: ignore[return-value]


def _strings(value: Any, out: list[str], depth: int) -> None:
    """Collect all strings of a JSON value, keys too. Raises ValueError where it nests deep."""
    kind = value.__class__
    if kind is str:
        out.append(value)
        return
    if depth > _DEPTH:
        raise ValueError("deep")
    if kind is dict:
        out += value
        value = value.values()
    elif kind is not list:
        return
    for item in value:
        kind = item.__class__
        if kind is str:
            out.append(item)
        elif kind is dict or kind is list:
            _strings(item, out, depth + 1)


def _name(index: int) -> str:
    return f"n{index}"


def _ordered(fields: dict[str, Field]) -> _Rows:
    """Required keys first, as msgspec wants them."""
    return tuple(sorted(fields.items(), key=lambda item: not item[1].required))


def _struct(name: str, rows: _Rows, types: dict[str, Any], role: str | None) -> type:
    fields: list[Any] = []
    for key, spec in rows:
        kind = types.get(key, _TYPES.get(spec.kind, Any))
        fields.append((key, kind) if spec.required else (key, kind | UnsetType, UNSET))
    return msgspec.defstruct(name, fields, gc=False, tag_field=None if role is None else ROLE, tag=role)


def unescaped_quotes(raw: bytes) -> int:
    """The quotes of valid JSON that begin or end a string."""
    if b"\\" not in raw:
        return raw.count(b'"')
    plain = raw.replace(b"\\\\", b"")  # pairs from the left: what is left before a quote escapes it
    return plain.count(b'"') - plain.count(b'\\"')


def quote_counts(block: bytes) -> list[int]:
    """`unescaped_quotes` of each line of a block (which ends in a line end), many times faster on large blocks."""
    import numpy as np

    data = np.frombuffer(block, np.uint8)
    quotes = data == ord('"')
    slashes = data == ord("\\")
    ends = np.flatnonzero(data == ord("\n"))
    escaped = slashes[:-1] & quotes[1:]
    quotes[1:] &= ~escaped
    sums = np.add.reduceat(quotes, np.concatenate(([0], ends[:-1] + 1)), dtype=np.int32)
    counts: list[int] = sums.tolist()
    doubled = np.flatnonzero(slashes[:-1] & slashes[1:])
    for line in set(np.searchsorted(ends, doubled).tolist()):
        start = int(ends[line - 1]) + 1 if line else 0
        counts[line] = unescaped_quotes(block[start : int(ends[line])])
    return counts
