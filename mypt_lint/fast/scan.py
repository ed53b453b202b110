"""Generates one pass over lines: decode each, note its shape, count its strings.

Input: lines of JSONL. Output: the indexes of lines that are not clean, and how many strings the
other lines were found to hold; on demand, what each line is made of.

Theory of operation. msgspec decodes a line into structs made from the schema. It ignores unknown
and repeated keys, so decoding alone proves nothing. Three things together do:

1. The shape: which fields each message has, with the role's number (layout.py). One shape is judged
   once, on the smallest record that has it, by the checker itself (`CleanShapes.shape`).
2. The texts: one that is blank, or holds the first character of a tag, goes to
   `CleanTexts.are_clean`; any other is clean. Top-level strings and called names are judged once
   for each set.
3. The count: a shape says how many strings (keys and values) its records hold. Valid JSON has two
   unescaped quotes for each string, so a key that msgspec ignored makes the line's quotes too many.

In dialect mypt, `{"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role":
"assistant", "content": "Yo"}]}` has the shape `(1, 1, 4097, None)`. The shape counts 11 strings and
the line has 22 quotes: it is clean. With `"x": "y"` in the first message the shape is the same, but
the line has 26 quotes: whoever counts quotes (clean_filter.py) does not trust the pass for this
line. Of the clean line, a pass that keeps what it reads returns the skeleton `((1, 1, 4097, None),
None, None)`, no names, and the texts "S", "Hi" and "Yo". The two None belong to `system` and to the
answer, which could hold tags: a text with tags would be in the skeleton as it is.

The pass is generated as source for one schema and compiled once: a loop over field descriptions
takes three times as long, skeleton.py's walk over a decoded record more than twice as long, and
this is where the linter spends its time.
"""

import json
from collections.abc import Callable
from functools import reduce
from operator import or_
from textwrap import indent
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from mypt_lint.fast.clean_shapes import CleanShapes
from mypt_lint.fast.layout import BITS, STRINGS, Layout, Rows, noted
from mypt_spec.bodies.plain_schema import nested
from mypt_spec.record_schema import (
    JSON,
    LANGUAGE,
    LIST,
    NAME,
    OBJECT,
    ROLE,
    STRING,
    Field,
    RecordSchema,
)

DEPTH = 6  # deeper values are left to the checker; the size of their type doubles with each level
# What a line is made of: its shape, then each string that stays as it is; the names that are
# called; the texts and JSON values.
LineParts = tuple[tuple[Any, ...], list[str], list[Any]]
_NEVER = -1 << 40  # a number of strings that stays negative whatever is added

# scan(lines) -> indexes of lines that are not clean; strings of the others, without those in their
# JSON values; these values.
Scan = Callable[..., tuple[list[int], int, list[Any]]]


def compile_scan(layout: Layout, judge: CleanShapes, *, with_parts: bool = False) -> Scan:
    """Compiles the pass.

    A line that the pass does not name is clean if all strings of the line were counted.
    `with_parts`: the pass has a second argument, a list that gets what each line is made of, None
    for a line that is not clean.
    """
    scope: dict[str, Any] = {
        "UNSET": UNSET,
        "ask": judge,
        "texts": judge.texts,
        "dumps": json.dumps,
    }
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
    # The source is built from the schema and names of metadata fields, never from values.
    exec(_source(layout, judge.texts.first, with_parts), scope)
    scan: Scan = scope["scan"]
    return scan


_PASS = """\
def scan(lines, parts=None, ask=ask, texts=texts, decode=decode, UNSET=UNSET{types}):
    shapes, heads, longest = ask.shapes.entries, ask.heads.entries, ask.longest
    bad, values, strings = [], [], 0
    for i, raw in enumerate(lines):
        try:
            record = decode(raw)
        except (ValueError, RecursionError):
            bad.append(i)
{none}
            continue
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
            count = ask.shape(shape)
        if (
            count < 0 or more < 0 or {cr} in raw[-2:] or len(raw) > longest
            or odd and not texts.are_clean(odd)
            or not (heads.get(head) or ask.head(head, shape))
            or names and not ask.declared(head, shape, names)
        ):
            bad.append(i)
            del values[mark:]
{none}
        else:
            strings += count + more
{add_parts}
    return bad, strings, values
"""


def _source(layout: Layout, first: tuple[str, ...], with_parts: bool) -> str:
    """Writes the source of the pass.

    In the source, `more` counts strings that are not part of the shape, and `odd` collects texts
    that need a closer look. `free` gets the texts and values of a record, `fixed` the strings that
    belong to its skeleton.
    """
    places = {name: f"record.f{i}" for i, (name, _) in enumerate(layout.top)}
    heads = [places[name] for name in layout.heads]
    top = ["free, fixed = [], []"] if with_parts else []
    top += [
        f"if {place} is not UNSET: more = {_NEVER}"
        for name, place in places.items()
        if name not in (*layout.heads, layout.messages)
    ]
    for name in layout.heads if with_parts else ():
        if look := _head_part(layout.fields[name], first):
            top += [f"v = {places[name]}", "if v is not UNSET:", *_indented(look)]
    roles = []
    for number, (role, rows) in enumerate(layout.roles):
        roles.append(f"{'el' if number else ''}if kind is type{number}:")
        roles += _indented(_message(number, rows, first, with_parts))
        roles += _indented(_metadata("m", layout.metadata[role]))
    append = "if parts is not None: parts.append"
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
        none=f"            {append}(None)" if with_parts else "",
        add_parts=f"            {append}(((shape, *fixed), [*names], free))" if with_parts else "",
    )


def _head_part(spec: Field, first: tuple[str, ...]) -> list[str]:
    """Writes the lines that add a top-level string; a language is in no text."""
    if spec.kind == LANGUAGE:
        return []
    if spec.kind != STRING:
        return ["fixed.append(v)"]
    if not spec.inline:
        return ["free.append(v)"]
    stays = f"({_tagged('v', first)}) and texts.has_tag(v)"
    return [f"if {stays}: fixed.append(v)", "else:", "    fixed.append(None)", "    free.append(v)"]


def _message(number: int, rows: Rows, first: tuple[str, ...], with_parts: bool) -> list[str]:
    """Writes the lines that read a message of one role."""
    tagged = _tagged("v", first)
    have = number << BITS | sum(1 << bit for bit, (_, spec) in enumerate(rows) if spec.required)
    code = [f"have = {have}"]
    notes = [f"n{bit}" for bit, (_, spec) in enumerate(rows) if noted(spec)]
    code += [f"{note} = None" for note in notes]
    for bit, (_, spec) in enumerate(rows):
        look = []
        if spec.items is not None:
            look += _items(f"item{number}_{bit}", spec.items, first, with_parts)
            look.append(f"n{bit} = tuple(inner)")
        elif spec.kind == NAME:
            look.append(f"n{bit} = names.setdefault(v, len(names))")
        if spec.inline:
            look.append(f"if {tagged}: n{bit} = texts.kinds(v, {spec.inline!r}, odd)")
            look.append("elif not v or v.isspace(): odd.append(v)")
        elif spec.kind in STRINGS:
            look.append(f"if not v or v.isspace() or {tagged}: odd.append(v)")
        elif spec.items is None:
            look.append("values.append(v)")
        if with_parts and spec.inline:
            look += [f"if n{bit} is None:", "    fixed.append(None)", "    free.append(v)"]
            look += ["else:", "    fixed.append(v)"]
        elif with_parts:
            look += _value_part("v", spec)
        code.append(f"v = m.f{bit}")
        if spec.required:
            code += look
        else:
            code += ["if v is not UNSET:", f"    have |= {1 << bit}", *_indented(look)]
    return [*code, "add(have)", *(f"add({note})" for note in notes)]


def _value_part(value: str, spec: Field) -> list[str]:
    """Writes the line that adds a value without tags; names and items are added elsewhere."""
    if spec.kind in (STRING, OBJECT, JSON):
        return [f"free.append({value})"]
    silent = spec.kind in (NAME, LANGUAGE) or spec.items is not None
    return [] if silent else [f"fixed.append(dumps({value}))"]


def _items(types: str, schema: RecordSchema, first: tuple[str, ...], with_parts: bool) -> list[str]:
    """Writes the lines that read the items of a message.

    For each item, `inner` gets the number of its kind, then what its fields hold. Whether a string
    is empty or blank is part of the shape: its meaning depends on the other items.
    """
    tagged = _tagged("w", first)
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
                if with_parts:
                    look.append("(fixed if inner[-1] else free).append(w)")
            else:
                look = ["values.append(w)", *(_value_part("w", spec) if with_parts else ())]
            code += [f"        {line}" for line in [f"w = item.f{bit}", *look]]
    return code


def _metadata(item: str, keys: list[str]) -> list[str]:
    """Writes the lines that count the strings of expected metadata."""
    code = []
    for number in range(len(keys)):
        code += [
            f"v = {item}.x{number}",
            "if v is not UNSET:",
            "    values.append(v)",
            "    more += 1",
        ]
    return code


def _tagged(value: str, first: tuple[str, ...]) -> str:
    """Writes the question whether a string holds the first character of a tag."""
    return " or ".join(f"{c!r} in {value}" for c in first)


def _indented(code: list[str]) -> list[str]:
    """Returns lines as the body of a statement."""
    return [f"    {line}" for line in code]


def _struct(
    name: str, rows: Rows, metadata: list[str], types: dict[str, Any], tag: tuple[str, str] | None
) -> type:
    """Returns the msgspec type of an object; `types` are those of some fields."""
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


_VALUE: Any = nested(DEPTH, str | int | float | bool | None)
_TYPES: dict[str, Any] = {
    STRING: str,
    NAME: str,
    LANGUAGE: str,
    OBJECT: dict[str, _VALUE],
    LIST: list[_VALUE],
}
