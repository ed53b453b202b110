"""The outline of a record: what a rule can see of it, with a sign in the place of every text that is clean.

Rules see of a clean text only that it is clean (fast.py rests on this, too), so records of one outline have the same findings,
but for what findings quote. In a text with tags, or almost tags, these stay and each run between them becomes a sign. White
space at the ends of a run stays, and so do names, roles and keys. A JSON value becomes a value of its type that holds a sign.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from mypt_spec.jsonvalue import MAX_DEPTH
from mypt_spec.lint.quotes import unescaped_quotes
from mypt_spec.nearmiss import near_misses
from mypt_spec.schema import JSON, LANGUAGE, NAME, OBJECT, Field, RecordSchema
from mypt_spec.tokens import TokenTable
from mypt_spec.truncated import fragments

_TEXTS, _VALUES, _END = 0xE000, 0xE800, 0xF000  # signs are characters for private use, which are neither letters nor white space
SIGN = re.compile(f"[{chr(_TEXTS)}-{chr(_END - 1)}]|\\\\ue")  # or how `repr` writes one
_VALUE = re.compile(f"[{chr(_VALUES)}-{chr(_END - 1)}]")
_LONGEST = 1 << 14  # code points of a text that is taken apart
_DEEP = MAX_DEPTH - 20  # brackets of a value
_decode = msgspec.json.Decoder().decode
_MEMO, _LONG = 200, 4000  # texts at the top whose pieces are remembered, and the code points of the longest
Spans = list[tuple[int, int]]
Pieces = list[str]  # what stays and what a sign may stand for, in turns


class NoOutlineError(ValueError):
    """The record is to be read as it stands."""


class Judge(Protocol):
    """What `fast.Prover` knows of texts."""

    table: TokenTable
    first: tuple[str, ...]  # the first characters of tags
    inner_tags: tuple[str, ...]
    encoder: msgspec.json.Encoder

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
        if _VALUE.search(outlined):
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
    """Makes outlines of records that a schema describes; belongs to one thread."""

    def __init__(self, judge: Judge, schema: RecordSchema) -> None:
        self.judge, self.schema = judge, schema
        table = judge.table
        self.first, self.declared = judge.first, table.tool_names
        self.bodies = {t.name for t in table.terminals.values() for kind in (t.opens, *t.ends) if kind and table.openers[kind].body != "text"}
        patterns = [table.literals, *(fragments(judge.inner_tags) if judge.inner_tags else ())]
        self.finders: list[Callable[[str], Spans]] = [_finder(pattern) for pattern in patterns]
        self.finders.append(lambda text: [(miss.start, miss.end) for miss in near_misses(text, table)])
        self.heads: dict[str, Pieces] = {}

    def outline(self, record: dict[str, Any]) -> Outline:
        """The outline of a record that msgspec has decoded. Raises NoOutlineError, and OverflowError for what it cannot encode."""
        work = _Work(self)
        schema, out = self.schema, work.out.record
        for key, value in record.items():
            if key == schema.messages and value.__class__ is list:
                out[key] = [work.item(item, schema) for item in value]
            elif value.__class__ is str and key in schema.top and schema.top[key].kind not in (NAME, LANGUAGE):
                out[key] = work.signed(self.head(value))
            else:
                out[key] = work.field(value, schema.top.get(key), lost=True)
        return work.out

    def head(self, text: str) -> Pieces:
        """The pieces of a text that may declare tools; such stand in many records."""
        pieces = self.heads.get(text)
        if pieces is None:
            pieces = self.pieces(text, declares=True)
            if len(text) <= _LONG:
                if len(self.heads) >= _MEMO:
                    self.heads.clear()
                self.heads[text] = pieces
        return pieces

    def pieces(self, text: str, *, declares: bool = False) -> Pieces:
        """A text as what must stay, a run without tags, what must stay, and so on."""
        table, finders = self.judge.table, self.finders
        if declares and self.declared is not None:
            finders = [*finders, _finder(self.declared)]
        tags = list(table.lexer.finditer(text)) if len(text) <= _LONGEST else []
        if len(text) > _LONGEST or (tags and any(tag.lastgroup in self.bodies for tag in tags)):
            return [text]
        found = [[tag.span() for tag in tags], *[finder(text) for finder in finders]]
        out, stays = [], ""
        shift: list[tuple[int, int]] = []  # where what stays begins, and by how much less in the outline
        at = less = 0
        for start, end in [*_merged([span for spans in found for span in spans]), (len(text), len(text))]:
            run = text[at:start]
            core = run.strip()
            if core:
                before = run.index(core)
                out += [stays + run[:before], core]
                stays = run[before + len(core) :]
                less += len(core) - 1
            else:
                stays += run
            shift.append((start, less))
            stays += text[start:end]
            at = end
        out.append(stays)
        # What was found must be found again, and nothing else: a run may begin with what keeps a tag from being one.
        short = "".join([piece if i % 2 == 0 else chr(_TEXTS) for i, piece in enumerate(out)])
        again = [[tag.span() for tag in table.lexer.finditer(short)], *[finder(short) for finder in finders]]
        if again != [[(a - less, b - less) for a, b in spans for less in [_less(shift, a)]] for spans in found]:
            return [text]
        return out


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
        if known is None and role.__class__ is str and role in schema.lifted:  # its text may declare tools
            return {key: self.signed(self.outliner.head(value)) if value.__class__ is str and key != schema.tag else value for key, value in item.items()}
        fields, lost, tag = known or {}, known is not None, schema.tag
        return {key: value if key == tag else self.field(value, fields.get(key), lost=lost) for key, value in item.items()}

    def field(self, value: Any, spec: Field | None, *, lost: bool) -> Any:
        """A value under a key. `lost`: it is not read if the key is unknown."""
        if spec is None:
            if lost:
                return self.json(value, always=True)
            return self.text(value) if value.__class__ is str else self.json(value)
        kind = spec.kind
        if value.__class__ is str:
            if kind == OBJECT:
                return self.quoted(value, spec)
            if kind in (NAME, LANGUAGE):
                return value
            return self.json(value, always=True) if kind == JSON else self.text(value)
        if spec.items is not None and value.__class__ is list:
            return [self.item(item, spec.items) for item in value]
        if spec.reserved and value.__class__ is dict and not value.keys().isdisjoint(spec.reserved):
            return value
        return self.json(value, always=kind == JSON)

    def quoted(self, text: str, spec: Field) -> str:
        """An object that is written as a string, as a string that holds the sign of the object."""
        try:
            value = _decode(text)
            encoded = self.judge.encoder.encode(value)
        except (ValueError, RecursionError):
            return text
        if value.__class__ is not dict or unescaped_quotes(encoded) != unescaped_quotes(text.encode()):
            return text
        outlined = self.field(value, spec, lost=False)
        return text if outlined is value else json.dumps(outlined, ensure_ascii=False)

    def text(self, text: str) -> str:
        """A text with its signs."""
        for first in self.outliner.first:
            if first in text:
                break
        else:
            core = text.strip()
            if len(core) == len(text):
                return self.sign(text) if core else text
        return self.signed(self.outliner.pieces(text))

    def signed(self, pieces: Pieces) -> str:
        return "".join([self.sign(piece) if i % 2 else piece for i, piece in enumerate(pieces)])

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


def _finder(pattern: re.Pattern[str]) -> Callable[[str], Spans]:
    return lambda text: [match.span() for match in pattern.finditer(text)]


def _merged(spans: Spans) -> Spans:
    """Spans that overlap or touch, joined."""
    out: Spans = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(end, out[-1][1])
        else:
            out.append((start, end))
    return out


def _less(shift: list[tuple[int, int]], at: int) -> int:
    """By how much less a place in a text is one in its outline; it is within what stays."""
    return next(less for start, less in reversed(shift) if start <= at)
