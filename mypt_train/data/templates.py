"""Records that are alike in form share all tokens but those of their texts, so only the texts of
each need be encoded.

A form is what a record is without its free strings and JSON values. The first record of a form goes
the long way; for the second one the form is learnt: `read` and `segments` are run on a skeleton in
which a mark stands in the place of each free value, and where the marks come out is where the
values will stand. A form whose marks do not all come out once, whole, in the text of one segment is
never used. (A property test holds the two ways together.)

Only records that the linter's fast path proves clean may be encoded by their form: in these no
string holds a tag but the inline tags that its field allows.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from mypt_spec.dialect import Dialect
from mypt_spec.encoder import Segment
from mypt_spec.record_schema import ITEMS, JSON, LANGUAGE, NAME, OBJECT, STRING, Field, RecordSchema
from mypt_spec.table import TEXT

_FORMS = 5000  # remembered; and of at most ...
_LONGEST = 4000  # ... so many characters that a form holds as they are
_MARK = re.compile("\ue000([0-9]+)\ue001")
_dumps = json.JSONEncoder(ensure_ascii=False).encode

# How a value stands in a text: as it is; in a JSON string; as JSON; as the members of an object
# behind another one.
_PLAIN, _QUOTED, _VALUE, _MEMBERS = range(4)
Piece = tuple[str, int, int]  # the text before a value, which value, and how it stands there
Text = tuple[int, tuple[Piece, ...], str]
Rows = tuple[
    tuple[str, str, Field], ...
]  # the attribute of a decoded record, the key, and what it holds
Split = tuple[Rows, Rows]
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """The runs of one loss in a record's tokens: constant ones, and the texts.

    `texts`: of each text the value that it is, or -1 and the pieces that it is made of and what
    stands behind them. `lengths`: of each run, 0 for a text. `loss`: of each run. `slots`: the runs
    that are texts. `ids`: those of the constant runs, one after another. `tags` counts terminals.
    """

    texts: tuple[Text, ...]
    lengths: npt.NDArray[np.int64]
    loss: npt.NDArray[np.uint8]
    slots: npt.NDArray[np.int64]
    ids: npt.NDArray[np.uint16]
    tags: Counter[str]

    def spell(self, values: list[Any]) -> list[str]:
        """The texts of a record that has these values."""
        out = []
        for whole, pieces, rest in self.texts:
            if whole >= 0:
                out.append(values[whole])
                continue
            text = ""
            for before, number, how in pieces:
                text += before + (values[number] if how == _PLAIN else _stand(values[number], how))
            out.append(text + rest)
        return out


def _stand(value: Any, how: int) -> str:
    if how == _QUOTED:
        return _dumps(value)[1:-1]
    if how == _VALUE:
        return _dumps(value)
    return ", " + _dumps(value)[1:-1] if value else ""


class Templates:
    """The forms of one dialect's records."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.first = sorted(dialect.table.first_characters)
        self.schema: RecordSchema = dialect.adapter.SCHEMA
        self.top = _split(self.schema.top, self.schema.messages)
        self.messages = f"f{list(self.schema.top).index(self.schema.messages)}"
        self.roles = {role: _split(fields) for role, fields in self.schema.roles.items()}
        self.classes: dict[type, tuple[str, Split]] = {}
        self.known: dict[Key, Form | None] = {}  # None: seen, and not learnt yet or never to be

    def of(self, record: Any, raw: bytes) -> tuple[Form, list[Any]] | None:
        """The form of a clean record and its free values; None where the record has to go the long
        way.

        `record` is what the pass of lint/scan.py decodes from the line `raw`.
        """
        taken, values = self._take(record)
        key = tuple(taken)
        form = self.known.get(key)
        if form is not None:
            return form, values
        if sum(len(part) for part in key if part.__class__ is str) > _LONGEST:
            return None
        if len(self.known) >= _FORMS:
            self.known.clear()
        if key not in self.known:
            self.known[key] = None
            return None
        form = self.known[key] = self._learn(msgspec.json.decode(raw))
        return (form, values) if form is not None else None

    def _take(self, record: Any) -> tuple[list[Any], list[Any]]:
        """Take a record apart: what is alike in all records of its form, and the free values."""
        key: list[Any] = []
        values: list[Any] = []
        names: dict[str, int] = {}
        free, others = self.top
        for attribute, _, _ in free:
            values.append(getattr(record, attribute))
        self._others(record, others, key, values, names)
        for message in getattr(record, self.messages):
            role, (free, others) = self.classes.get(message.__class__) or self._class(
                message.__class__
            )
            key.append(role)
            for attribute, _, _ in free:
                values.append(getattr(message, attribute))
            if others:
                self._others(message, others, key, values, names)
        return key, values

    def _class(self, kind: Any) -> tuple[str, Split]:
        role = kind.__struct_config__.tag
        self.classes[kind] = role, self.roles[role]
        return self.classes[kind]

    def _others(
        self, item: Any, rows: Rows, key: list[Any], values: list[Any], names: dict[str, int]
    ) -> None:
        for attribute, _, spec in rows:
            kind, value = spec.kind, getattr(item, attribute)
            if value is UNSET:
                key.append(None)
            elif kind == NAME:
                if value not in names:
                    names[value] = len(values)
                    values.append(value)
                key.append(names[value])
            elif kind == ITEMS:
                key.append(len(value))
                for one in value:
                    tag = one.__class__.__struct_config__.tag
                    key.append(tag)
                    self._others(one, _rows(spec.items.roles[tag]), key, values, names)  # type: ignore[union-attr]
            elif self._is_free(spec, value):
                key.append(True)
                values.append(value)
            else:
                key.append(value if kind == STRING else _dumps(value))

    def _is_free(self, spec: Field, value: Any) -> bool:
        """Whether a value is the same to the form as any other of its kind: not so blank text, and
        text with tags.
        """
        if spec.kind == STRING:
            return not (spec.inline and self._tagged(value)) and bool(value) and not value.isspace()
        return spec.kind in (OBJECT, JSON)

    def _tagged(self, text: str) -> bool:
        return (
            any(c in text for c in self.first)
            and self.dialect.table.literals.search(text) is not None
        )

    def _skeleton(self, record: dict[str, Any], kinds: list[str]) -> dict[str, Any]:
        """A record with marks in the place of its free values, in the order of `_take`; the kind of
        each is added to `kinds`.
        """
        names: dict[str, str] = {}

        def mark(kind: str) -> Any:
            kinds.append(kind)
            shown = f"\ue000{len(kinds) - 1}\ue001"
            return {shown: 0} if kind == OBJECT else shown

        def shown(item: dict[str, Any], free: Rows, rows: Rows) -> dict[str, Any]:
            out = {name: mark(spec.kind) for _, name, spec in free}
            for _, name, spec in rows:
                if name not in item:
                    continue
                value = item[name]
                if spec.kind == NAME:
                    if value not in names:
                        names[value] = mark(NAME)
                    out[name] = names[value]
                elif spec.items is not None:
                    tag, fields = spec.items.tag, spec.items.roles
                    out[name] = [
                        {tag: one[tag]} | shown(one, (), _rows(fields[one[tag]])) for one in value
                    ]
                else:
                    out[name] = mark(spec.kind) if self._is_free(spec, value) else value
            return out

        skeleton, role = shown(record, *self.top), self.schema.tag
        messages = [
            {role: m[role]} | shown(m, *self.roles[m[role]]) for m in record[self.schema.messages]
        ]
        return skeleton | {self.schema.messages: messages}

    def _learn(self, record: dict[str, Any]) -> Form | None:
        kinds: list[str] = []
        episode, _ = self.dialect.read(self._skeleton(record, kinds))
        if episode is None:
            return None
        texts: list[Text] = []
        runs: list[tuple[int, int]] = []  # length, 0 for a text; loss
        ids: list[int] = []
        tags: Counter[str] = Counter()
        free: Counter[int] = Counter()
        for segment in self.dialect.segments(episode):
            if segment.event.terminal != TEXT:
                tags[segment.event.terminal] += 1
            text = segment.event.text
            if not _MARK.search(text):
                ids += segment.ids
                runs.append((len(segment.ids), segment.loss))
                continue
            found = self._pieces(segment, kinds)
            if found is None:
                return None
            pieces, rest = found
            free.update(number for _, number, _ in pieces)
            whole = pieces[0][1] if pieces == (("", pieces[0][1], _PLAIN),) and not rest else -1
            texts.append((whole, pieces, rest))
            runs.append((0, segment.loss))
        once = [number for number, kind in enumerate(kinds) if kind != NAME]
        if any(free[number] != 1 for number in once):
            return None
        lengths = np.array([length for length, _ in runs], np.int64)
        loss = np.array([loss for _, loss in runs], np.uint8)
        return Form(
            tuple(texts),
            lengths,
            loss,
            np.flatnonzero(lengths == 0),
            np.array(ids, np.uint16),
            tags,
        )

    def _pieces(self, segment: Segment, kinds: list[str]) -> tuple[tuple[Piece, ...], str] | None:
        """The text of a segment around its marks; None where a mark does not stand as expected."""
        table, event = self.dialect.table, segment.event
        terminal = table.terminals.get(event.terminal)
        if terminal is not None and any(piece.kind == "special" for piece in terminal.spelling):
            return None  # several runs of text with ids between them
        body = (
            "text"
            if terminal is not None or not segment.inside
            else table.openers[segment.inside[-1]].body
        )
        pieces: list[Piece] = []
        at = 0
        for match in _MARK.finditer(event.text):
            number, (start, end) = int(match[1]), match.span()
            kind, how = kinds[number], _PLAIN if body == "text" else _QUOTED
            if kind == JSON:
                around, how = ('"', '"'), _VALUE
            elif kind == OBJECT:
                around, how = (
                    (('{"', '": 0}'), _VALUE)
                    if event.text.startswith('{"', start - 2)
                    else ((', "', '": 0'), _MEMBERS)
                )
            else:
                around = ("", "")
            start, end = start - len(around[0]), end + len(around[1])
            if event.text[start:end] != around[0] + match[0] + around[1] or start < at:
                return None
            pieces.append((event.text[at:start], number, how))
            at = end
        return tuple(pieces), event.text[at:]


def _rows(fields: dict[str, Field]) -> Rows:
    return tuple((f"f{i}", name, spec) for i, (name, spec) in enumerate(fields.items()))


def _split(fields: dict[str, Field], messages: str = "") -> Split:
    """The fields whose values are there and free in every clean record, and the others that are in
    the text.
    """
    rows = tuple(row for row in _rows(fields) if row[1] != messages and row[2].kind != LANGUAGE)
    free = tuple(
        r
        for r in rows
        if r[2].required
        and (r[2].kind in (OBJECT, JSON) or (r[2].kind == STRING and not r[2].inline))
    )
    return free, tuple(row for row in rows if row not in free)
