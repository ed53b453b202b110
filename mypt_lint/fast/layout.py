"""Lays out a schema's fields in a fixed order, so that the structure of a record is a tuple.

Such a tuple is a shape. scan.py reads lines as shapes; `smallest` writes a shape as a record, with
whatever its user puts in the free places: words that no rule minds (clean_filter.py), or marks that
show where a text's tokens come out (mypt_train/data/templates/).

In dialect mypt, `{"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role":
"assistant", "content": "Yo"}]}` has the shape `(1, 1, 4097, None)`. The first 1: of the strings at
the top, bit 0 (`system`) is there. The second: role 0, field 0 (`content`). 4097 is 1 << BITS | 1:
role 1 (assistant), field 0; None: no citation inside that text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from mypt_spec.record_schema import ITEMS, LANGUAGE, NAME, NUMBER, ROLE, STRING, Field, RecordSchema

BITS = 12  # keys a message can have; the role's number is in the bits above
STRINGS = (STRING, NAME, LANGUAGE)
Rows = tuple[tuple[str, Field], ...]
Shape = tuple[Any, ...]
Head = tuple[Any, ...]  # the strings at the top of a record, UNSET where one is missing


class Layout(NamedTuple):
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
        """Returns the layout of a schema, which expects no metadata yet.

        Numbers are left out: a line that has one is not read as a shape, but by the checker.
        """
        top, key = tuple(schema.top.items()), schema.messages
        roles = tuple(
            (role, tuple((key, spec) for key, spec in fields.items() if spec.kind != NUMBER))
            for role, fields in schema.roles.items()
        )
        heads = tuple(name for name, spec in top if spec.kind in STRINGS)
        return Layout(
            top, heads, schema.top, roles, key, {role: [] for role in ("", *schema.roles)}
        )


class Filling(Protocol):
    """Puts something into the free places of a record."""

    def name(self, index: int) -> str:
        """Returns a name; equal indexes, equal names."""
        ...

    def value(self, spec: Field, note: Any) -> Any:
        """Returns what a field holds; `note` is what the shape says of the field."""
        ...


def smallest(layout: Layout, shape: Shape, filling: Filling) -> dict[str, Any]:
    """Returns the smallest record of a shape. It is filled in the order in which scan.py reads."""
    present, *notes = shape
    heads = [key for bit, key in enumerate(layout.heads) if present >> bit & 1]
    record = {key: filling.value(layout.fields[key], None) for key in heads}
    messages: list[dict[str, Any]] = []
    rest = iter(notes)
    for code in rest:
        role, rows = layout.roles[code >> BITS]
        message: dict[str, Any] = {ROLE: role}
        for bit, (key, spec) in enumerate(rows):
            note: Any = next(rest) if noted(spec) else None
            if not code >> bit & 1:
                continue
            if spec.items is not None:
                message[key] = list(_items(spec.items, iter(note), filling))
            elif spec.kind == NAME:
                message[key] = filling.name(note)
            else:
                message[key] = filling.value(spec, note)
        messages.append(message)
    return record | {layout.messages: messages}


def _items(
    schema: RecordSchema, notes: Iterator[int], filling: Filling
) -> Iterator[dict[str, Any]]:
    """Yields the smallest items of a shape."""
    kinds = list(schema.roles.items())
    for number in notes:
        kind, fields = kinds[number]
        item = {schema.tag: kind}
        for key, spec in fields.items():
            if spec.kind == NAME:
                item[key] = filling.name(next(notes))
            else:
                item[key] = filling.value(spec, next(notes) if spec.kind == STRING else None)
        yield item


def size_of(shape: Shape) -> int:
    """Returns how many numbers and kinds a shape holds, about."""
    return sum(len(part) if part.__class__ is tuple else 1 for part in shape)


def noted(spec: Field) -> bool:
    """Returns whether a shape holds a note on a field besides its bit.

    The note is the number of a name, the kinds of inline parts, or the items.
    """
    return spec.kind == NAME or bool(spec.inline) or spec.kind == ITEMS
