"""The outline of a record: what a rule can see of it, with a sign in the place of every text that is clean.

Rules see of a clean text only that it is clean (fast.py rests on this, too), so records of one outline have the same findings,
but for what findings quote. In a text with tags, or almost tags, the tags stay and each run between them becomes a sign.
White space at the ends of a text, names, roles and keys stay. A JSON value becomes a value of its type that holds a sign.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from mypt_spec.jsonvalue import MAX_DEPTH
from mypt_spec.nearmiss import candidates
from mypt_spec.schema import JSON, LANGUAGE, NAME, OBJECT, Field, RecordSchema
from mypt_spec.tokens import TokenTable
from mypt_spec.truncated import fragments

_TEXTS, _VALUES, _END = 0xE000, 0xE800, 0xF000  # signs are characters for private use, which are neither letters nor white space
SIGN = re.compile(f"[{chr(_TEXTS)}-{chr(_END - 1)}]|\\\\ue")  # or how `repr` writes one
VALUE = re.compile(f"[{chr(_VALUES)}-{chr(_END - 1)}]")
_LONGEST = 1 << 14  # code points of a text that is taken apart
_DEEP = MAX_DEPTH - 20  # brackets of a value


class NoOutlineError(ValueError):
    """The record is to be read as it stands."""


class Judge(Protocol):
    """What `fast.Prover` knows of texts."""

    table: TokenTable
    first: tuple[str, ...]
    inner_tags: tuple[str, ...]
    encoder: msgspec.json.Encoder

    def texts(self, texts: list[str]) -> bool:
        """Whether texts are clean."""
        ...

    def tagged(self, value: Any, encoded: bytes) -> bool:
        """Whether a string in a JSON value, here also encoded, spells a tag."""
        ...


@dataclass(slots=True)
class Outline:
    """`record` with signs, and what each sign stands for: a text by its character's number, a JSON value by the character."""

    record: dict[str, Any] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)

    def text(self, outlined: str) -> str:
        """A text of the outline as it stands in the record. Raises NoOutlineError where it holds a JSON value."""
        if VALUE.search(outlined):
            raise NoOutlineError("part of a JSON value")
        return outlined.translate(self.texts)

    def value(self, outlined: Any) -> Any:
        """A JSON value of the outline as it stands in the record. Raises NoOutlineError where it cannot be told."""
        if isinstance(outlined, str):
            return self.values[outlined] if outlined in self.values else self.text(outlined)
        if isinstance(outlined, dict):
            if len(outlined) == 1 and (key := next(iter(outlined))) in self.values:
                return self.values[key]
            return {self.text(key): self.value(value) for key, value in outlined.items()}
        if isinstance(outlined, list):
            if len(outlined) == 1 and outlined[0].__class__ is str and outlined[0] in self.values:
                return self.values[outlined[0]]
            return [self.value(value) for value in outlined]
        return outlined


class Outliner:
    """Makes outlines of records that a schema describes."""

    def __init__(self, judge: Judge, schema: RecordSchema) -> None:
        self.judge, self.schema = judge, schema
        table = judge.table
        self.first, self.declared = judge.first, table.tool_names
        self.bodies = {t.name for t in table.terminals.values() for kind in (t.opens, *t.ends) if kind and table.openers[kind].body != "text"}
        self.finders = [table.lexer, table.literals, candidates(table), *fragments(judge.inner_tags)]

    def outline(self, record: dict[str, Any]) -> Outline:
        """The outline of a record that msgspec has decoded. Raises NoOutlineError, and OverflowError for what it cannot encode."""
        work = _Work(self)
        for key, value in record.items():
            if key == self.schema.messages and value.__class__ is list:
                work.out.record[key] = [work.item(item, self.schema) for item in value]
            else:
                work.out.record[key] = work.field(value, self.schema.top.get(key), lost=True, declares=True)
        return work.out

    def runs(self, text: str, *, declares: bool) -> Iterator[tuple[bool, str]]:
        """A text in pieces: whether each is to stay, and the piece."""
        finders = [*self.finders, self.declared] if declares and self.declared is not None else self.finders
        found = [[m.span() for m in finder.finditer(text)] for finder in finders]
        if len(text) > _LONGEST or any(m.lastgroup in self.bodies for m in self.judge.table.lexer.finditer(text)):
            yield True, text
            return
        pieces: list[tuple[bool, str]] = []
        places: list[tuple[int, int]] = []  # of the pieces that stay: where each begins in the text, and in the outline
        at = length = 0
        for start, end in [*_merged(span for spans in found for span in spans), (len(text), len(text))]:
            run = text[at:start]
            core = run.strip()
            if core:
                before = run.index(core)
                pieces += [(True, run[:before]), (False, core), (True, run[before + len(core) :])]
                length += len(run) - len(core) + 1
            else:
                pieces.append((True, run))
                length += len(run)
            pieces.append((True, text[start:end]))
            places.append((start, length))
            length += end - start
            at = end
        # What was found must be found again, and nothing else: a run may begin with what keeps a tag from being one.
        short = "".join(piece if stays else chr(_TEXTS) for stays, piece in pieces)
        shift = [[(a - was + now, b - was + now) for a, b in spans for was, now in [_last(places, a)]] for spans in found]
        if shift == [[m.span() for m in finder.finditer(short)] for finder in finders]:
            yield from pieces
        else:
            yield True, text


class _Work:
    """One outline in the making."""

    def __init__(self, outliner: Outliner) -> None:
        self.outliner, self.judge = outliner, outliner.judge
        self.out = Outline()
        self.signs: dict[str, str] = {}  # by text
        self.held: dict[bytes, str] = {}  # by encoded value

    def item(self, item: Any, schema: RecordSchema) -> Any:
        """A message, or an item of one."""
        if item.__class__ is not dict:
            return self.json(item)
        role = item.get(schema.tag)
        known = schema.roles.get(schema.aliases.get(role, role)) if role.__class__ is str else None
        fields = known or {}
        return {
            key: value if key == schema.tag else self.field(value, fields.get(key), lost=known is not None)
            for key, value in item.items()
        }

    def field(self, value: Any, spec: Field | None, *, lost: bool, declares: bool = False) -> Any:
        """A value under a key. `lost`: it is not read if the key is unknown; `declares`: a text may declare tools."""
        if spec is None and lost:
            return self.json(value, always=True)
        declares = declares or spec is None  # of an unknown role: it may be meant for what declares them
        kind = spec.kind if spec is not None else ""
        if value.__class__ is str:
            if kind in (NAME, LANGUAGE, OBJECT):
                return value
            return self.json(value, always=True) if kind == JSON else self.text(value, declares=declares)
        if spec is not None and spec.items is not None and value.__class__ is list:
            return [self.item(item, spec.items) for item in value]
        if spec is not None and value.__class__ is dict and not value.keys().isdisjoint(spec.reserved):
            return value
        return self.json(value, always=kind == JSON)

    def text(self, text: str, *, declares: bool) -> str:
        core = text.strip()
        if not core:
            return text
        outliner = self.outliner
        names = outliner.declared if declares else None
        if names is not None and names.search(text):
            clean = False
        else:
            clean = not any(first in text for first in outliner.first) or self.judge.texts([text])
        if clean:
            return self.sign(core) if len(core) == len(text) else text.replace(core, self.sign(core), 1)
        return "".join(piece if stays else self.sign(piece) for stays, piece in outliner.runs(text, declares=declares))

    def sign(self, text: str) -> str:
        """The sign of a text; equal texts have one."""
        found = self.signs.get(text)
        if found is None:
            number = _TEXTS + len(self.signs)
            if number >= _VALUES:
                raise NoOutlineError("too many texts")
            found = self.signs[text] = chr(number)
            self.out.texts[number] = text
        return found

    def json(self, value: Any, *, always: bool = False) -> Any:
        """A value of the same type that holds the sign of a JSON value; `always`: a string may stand for any other."""
        kind = value.__class__
        if not (always or kind is dict or kind is list) or value is None or kind is bool or (not value and kind is not int and kind is not float):
            return value
        encoded = self.judge.encoder.encode(value)
        if encoded.count(b"[") + encoded.count(b"{") > _DEEP:
            raise NoOutlineError("deep")
        if self.judge.tagged(value, encoded):
            return value
        sign = self.held.get(encoded)
        if sign is None:
            number = _VALUES + len(self.held)
            if number >= _END:
                raise NoOutlineError("too many values")
            sign = self.held[encoded] = chr(number)
            self.out.values[sign] = value
        return {sign: 0} if kind is dict else [sign] if kind is list else sign


def _merged(spans: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans that overlap or touch, joined."""
    out: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(end, out[-1][1])
        else:
            out.append((start, end))
    return out


def _last(places: list[tuple[int, int]], at: int) -> tuple[int, int]:
    return next(place for place in reversed(places) if place[0] <= at)
