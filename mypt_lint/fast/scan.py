"""Generates one pass over lines: decode each, note its shape, count its strings.

Input: lines of JSONL. Output: the indexes of lines that are not clean, and how many strings the
other lines were found to hold.

Theory of operation. msgspec decodes a line into structs made from the schema. It ignores unknown
and repeated keys, so decoding alone proves nothing. Three things together do:

1. The shape: which fields each message has, with the role's number. One shape is judged once, on a
   sample record, by the checker itself (`Judge.shape`).
2. The texts: one that is blank, or holds the first character of a tag, goes to `Judge.texts`; any
   other is clean by itself. Top-level strings and called names are judged once for each set.
3. The count: a shape says how many strings (keys and values) its records hold. Valid JSON has two
   unescaped quotes for each string, so a key that msgspec ignored makes the line's quotes too many.

In dialect mypt, `{"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role":
"assistant", "content": "Yo"}]}` has the shape `(1, 1, 4097, None)`. The first 1: of the strings at
the top, bit 0 (`system`) is there. The second: role 0, field 0 (`content`). 4097 is 1 << BITS | 1:
role 1 (assistant), field 0; None: no citation inside that text. The shape counts 11 strings and the
line has 22 quotes: it is clean. With `"x": "y"` in the first message the shape is the same, but the
line has 26 quotes: whoever counts quotes (clean_filter.py) does not trust the pass for this line.

The pass is generated as source for one schema and compiled once: a loop over field descriptions
takes three times as long, and this is where the linter spends its time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import or_
from textwrap import indent
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from mypt_spec.record_schema import (
    ITEMS,
    LANGUAGE,
    LIST,
    NAME,
    OBJECT,
    ROLE,
    STRING,
    Field,
    RecordSchema,
)

SAID = ("x", "", " ")  # what a string of an item is like: text, nothing, white space
BITS = 12  # keys a message can have; the role's number stands above them
DEPTH = 6  # deeper values are left to the checker; the size of their type doubles with each level
Rows = tuple[tuple[str, Field], ...]
Shape = tuple[Any, ...]
Head = tuple[Any, ...]
_STRINGS = (STRING, NAME, LANGUAGE)
_NEVER = -1 << 40  # a number of strings that stays negative whatever is added


class Judge(Protocol):
    """Answers the questions of the pass; `CleanFilter` implements it."""

    first: tuple[str, ...]  # the first characters of tags
    longest: int  # bytes
    shapes: dict[Shape, int]
    heads: dict[Head, bool]

    def shape(self, shape: Shape) -> int:
        """Returns how many strings a record of this shape holds; -1 if it is not clean.

        Strings inside JSON values do not count.
        """
        ...

    def head(self, head: Head, shape: Shape) -> bool:
        """Whether top-level values are clean in a record of a clean shape."""
        ...

    def declared(self, head: Head, shape: Shape, names: dict[str, int]) -> bool:
        """Whether all names may be called under these top-level values."""
        ...

    def texts(self, texts: list[str]) -> bool:
        """Whether texts that are blank or hold the first character of a tag are clean."""
        ...

    def kinds(self, text: str, inline: tuple[str, ...], texts: list[str]) -> tuple[str, ...] | None:
        """Returns the kinds of the parts of a string with inline tags, None where it has none.

        Adds the text of each part to `texts`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Layout:
    """The fields of a schema in the order of a shape's bits.

    `heads` are the top-level keys of strings. `metadata` holds the metadata keys to expect, by
    role; "" is the top of the record.
    """

    top: Rows
    heads: tuple[str, ...]
    fields: dict[str, Field]
    roles: tuple[tuple[str, Rows], ...]
    messages: str
    metadata: dict[str, list[str]]

    @staticmethod
    def of(schema: RecordSchema) -> Layout:
        top, key = tuple(schema.top.items()), schema.messages
        roles = tuple((role, tuple(fields.items())) for role, fields in schema.roles.items())
        heads = tuple(name for name, spec in top if spec.kind in _STRINGS)
        return Layout(
            top, heads, schema.top, roles, key, {role: [] for role in ("", *schema.roles)}
        )


# scan(lines) -> indexes of lines that are not clean; strings of the others, without those in their
# JSON values; these values
Scan = Callable[..., tuple[list[int], int, list[Any]]]


def compile_scan(layout: Layout, judge: Judge) -> Scan:
    """Compiles the pass.

    A line that the pass does not name is clean if all strings of the line were counted. With a list
    `kept`, the pass adds each decoded record to the list, None for a line that cannot be decoded: a
    struct with fields f0, f1 ... in the order of the schema, UNSET where a field is missing. The
    tag of a message's class is its role.
    """
    scope: dict[str, Any] = {"UNSET": UNSET, "judge": judge}
    types = []
    for number, (role, rows) in enumerate(layout.roles):
        items: dict[str, Any] = {}
        for bit, (key, spec) in enumerate(rows):
            if spec.items is not None:
                kinds = [
                    _struct(f"item_{kind}", tuple(fields.items()), [], {}, (spec.items.tag, kind))
                    for kind, fields in spec.items.roles.items()
                ]
                scope |= {f"item{number}_{bit}_{i}": kind for i, kind in enumerate(kinds)}
                items[key] = list[reduce(or_, kinds)]  # type: ignore[misc]
        types.append(_struct(f"role_{role}", rows, layout.metadata[role], items, (ROLE, role)))
    messages: Any = list[reduce(or_, types)]  # type: ignore[misc]
    record = _struct("record", layout.top, layout.metadata[""], {layout.messages: messages}, None)
    scope["decode"] = msgspec.json.Decoder(record).decode
    scope |= {f"type{i}": kind for i, kind in enumerate(types)}
    exec(
        _source(layout, judge.first), scope
    )  # built from the schema and names of metadata fields, never from values
    scan: Scan = scope["scan"]
    return scan


_PASS = """\
def scan(lines, kept=None, judge=judge, decode=decode, UNSET=UNSET{types}):
    shapes, heads, longest = judge.shapes, judge.heads, judge.longest
    bad, values, strings = [], [], 0
    for i, raw in enumerate(lines):
        try:
            record = decode(raw)
        except (ValueError, RecursionError):
            bad.append(i)
            if kept is not None:
                kept.append(None)
            continue
        if kept is not None:
            kept.append(record)
        head = ({heads})
        shape = [{present}]
        mark, names, odd, more, add = len(values), {{}}, [], 0, shape.append
{top}
        for m in {messages}:
            kind = m.__class__
{roles}
        shape = tuple(shape)
        count = shapes.get(shape)
        if count is None:
            count = judge.shape(shape)
        if (
            count < 0 or more < 0 or {cr} in raw[-2:] or len(raw) > longest
            or odd and not judge.texts(odd)
            or not (heads.get(head) or judge.head(head, shape))
            or names and not judge.declared(head, shape, names)
        ):
            bad.append(i)
            del values[mark:]
        else:
            strings += count + more
    return bad, strings, values
"""


def _source(layout: Layout, first: tuple[str, ...]) -> str:
    """Writes the source of the pass.

    In the source, `more` counts strings that are not part of the shape, and `odd` collects texts
    that need a closer look.
    """
    places = {name: f"record.f{i}" for i, (name, _) in enumerate(layout.top)}
    heads = [places[name] for name in layout.heads]
    top = [
        f"if {place} is not UNSET: more = {_NEVER}"
        for name, place in places.items()
        if name not in (*layout.heads, layout.messages)
    ]
    roles = []
    for number, (role, rows) in enumerate(layout.roles):
        roles.append(f"{'el' if number else ''}if kind is type{number}:")
        roles += [
            "    " + line
            for line in [*_message(number, rows, first), *_metadata("m", layout.metadata[role])]
        ]
    return _PASS.format(
        types="".join(f", type{i}=type{i}" for i in range(len(layout.roles))),
        heads="".join(f"{head}, " for head in heads),
        present=" | ".join(
            ["0", *(f"({head} is not UNSET) << {bit}" for bit, head in enumerate(heads))]
        ),
        top=indent("\n".join([*top, *_metadata("record", layout.metadata[""])]), " " * 8),
        messages=places[layout.messages],
        roles=indent("\n".join(roles), " " * 12),
        cr=ord("\r"),
    )


def _message(number: int, rows: Rows, first: tuple[str, ...]) -> list[str]:
    """Writes the lines that read a message of one role."""
    tagged = " or ".join(f"{c!r} in v" for c in first)
    have = number << BITS | sum(1 << bit for bit, (_, spec) in enumerate(rows) if spec.required)
    code = [f"have = {have}"]
    notes = [f"n{bit}" for bit, (_, spec) in enumerate(rows) if noted(spec)]
    code += [f"{note} = None" for note in notes]
    for bit, (_, spec) in enumerate(rows):
        look = []
        if spec.items is not None:
            look += _items(f"item{number}_{bit}", spec.items, first)
            look.append(f"n{bit} = tuple(inner)")
        elif spec.kind == NAME:
            look.append(f"n{bit} = names.setdefault(v, len(names))")
        if spec.inline:
            look.append(f"if {tagged}: n{bit} = judge.kinds(v, {spec.inline!r}, odd)")
            look.append("elif not v or v.isspace(): odd.append(v)")
        elif spec.kind in _STRINGS:
            look.append(f"if not v or v.isspace() or {tagged}: odd.append(v)")
        elif spec.items is None:
            look += [f"if {word!r} in v: more = {_NEVER}" for word in spec.reserved]
            look.append("values.append(v)")
        code.append(f"v = m.f{bit}")
        if spec.required:
            code += look
        else:
            code += [
                "if v is not UNSET:",
                *(f"    {line}" for line in [f"have |= {1 << bit}", *look]),
            ]
    return [*code, "add(have)", *(f"add({note})" for note in notes)]


def _items(types: str, schema: RecordSchema, first: tuple[str, ...]) -> list[str]:
    """Writes the lines that read the items of a message.

    For each item, `inner` gets the number of its kind, then what its fields hold. Whether a string
    is empty or blank is part of the shape: its meaning depends on the other items.
    """
    tagged = " or ".join(f"{c!r} in w" for c in first)
    code = ["inner = []", "for item in v:"]
    for number, fields in enumerate(schema.roles.values()):
        code += [
            f"    {'el' if number else ''}if item.__class__ is {types}_{number}:",
            f"        inner.append({number})",
        ]
        for bit, spec in enumerate(fields.values()):
            if spec.kind == NAME:
                look = [
                    "inner.append(names.setdefault(w, len(names)))",
                    f"if not w or w.isspace() or {tagged}: odd.append(w)",
                ]
            elif spec.kind == STRING:
                look = [
                    "inner.append(0 if w and not w.isspace() else 2 if w else 1)",
                    f"if {tagged}: odd.append(w)",
                ]
            else:
                look = ["values.append(w)"]
            code += [f"        {line}" for line in [f"w = item.f{bit}", *look]]
    return code


def noted(spec: Field) -> bool:
    """Whether a shape holds a note on a field beside its bit.

    The note is the number of a name, the kinds of inline parts, or the items.
    """
    return spec.kind == NAME or bool(spec.inline) or spec.kind == ITEMS


def _metadata(item: str, keys: list[str]) -> list[str]:
    code = []
    for number in range(len(keys)):
        code += [
            f"v = {item}.x{number}",
            "if v is not UNSET:",
            "    values.append(v)",
            "    more += 1",
        ]
    return code


def _struct(
    name: str, rows: Rows, metadata: list[str], types: dict[str, Any], tag: tuple[str, str] | None
) -> type:
    fields: list[Any] = []
    for bit, (key, spec) in enumerate(rows):
        kind = types.get(key, _TYPES.get(spec.kind, _VALUE))
        fields.append((f"f{bit}", kind) if spec.required else (f"f{bit}", kind | UnsetType, UNSET))
    fields += [(f"x{i}", _VALUE | UnsetType, UNSET) for i in range(len(metadata))]
    names = {f"f{bit}": key for bit, (key, _) in enumerate(rows)} | {
        f"x{i}": key for i, key in enumerate(metadata)
    }
    field, value = tag or (None, None)
    return msgspec.defstruct(
        name, fields, gc=False, kw_only=True, rename=names, tag_field=field, tag=value
    )


def _nested(depth: int) -> Any:
    if not depth:
        return str | int | float | bool | None
    inner = _nested(depth - 1)
    return str | int | float | bool | dict[str, inner] | list[inner] | None  # type: ignore[valid-type]


_VALUE: Any = _nested(DEPTH)
_TYPES: dict[str, Any] = {
    STRING: str,
    NAME: str,
    LANGUAGE: str,
    OBJECT: dict[str, _VALUE],
    LIST: list[_VALUE],
}
