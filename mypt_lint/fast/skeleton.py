"""Makes skeletons of records: each clean text is replaced by a sign, one private-use character.

Input: a decoded record. Output: a `Skeleton`, the record with signs and what each sign replaces.

Theory of operation. Of a clean text, a rule sees only that it is clean (clean_filter.py rests on
this, too). So records with equal skeletons have the same findings, except for the texts that
findings quote, and the checker judges each skeleton once (findings_cache.py). Kept are keys, roles,
names, white space at the ends of a text, tags, near misses of tags, and any text that is in doubt.
The runs between tags become signs from U+E000 on; equal texts get one sign, as rules may compare
texts. A JSON value becomes a value of the same type that holds a sign from U+E800 on; a valid
language becomes "en".

In dialect mypt, a record with these values (left) has these in its skeleton (right):

    "system": "You are MyPT."                  "\ue000"
    user, "content": "Hi"                      "\ue001"
    assistant, "content": "A <myPT_eot> B"     "\ue002 <myPT_eot> \ue003"
    assistant, "cite": " Hi "                  " \ue001 "
    toolresult, "name": "f"                    "f"
    toolresult, "content": {"n": 1}            {"\ue800": 0}

The finding about `<myPT_eot>` is made on the skeleton. For a record, `Skeleton.text` puts the texts
back: U+E002 becomes "A". Where a sign cannot be turned back with certainty, `NoSkeletonError` sends
the record to the checker as it is.
"""

import json
import re
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mypt_lint.fast.clean_texts import CleanTexts
from mypt_lint.fast.quotes import unescaped_quotes
from mypt_spec.bodies.strict_json import MAX_DEPTH
from mypt_spec.damage.cut_tags import fragments
from mypt_spec.damage.near_miss import near_misses
from mypt_spec.memo import Memo
from mypt_spec.record_schema import (
    JSON,
    LANGUAGE,
    NUMBER,
    OBJECT,
    STRING,
    Field,
    RecordSchema,
    is_language,
)

# Signs are characters for private use, which are neither letters nor white space.
_TEXTS, _VALUES, _END = 0xE000, 0xE800, 0xF000
SIGN = re.compile(f"[{chr(_TEXTS)}-{chr(_END - 1)}]|\\\\ue")  # or how `repr` writes one
_VALUE = re.compile(f"[{chr(_VALUES)}-{chr(_END - 1)}]")
_LONGEST = 1 << 14  # code points of a text that is taken apart
_LANGUAGE = "en"  # replaces any language
DEEP = MAX_DEPTH - 20  # brackets of a value
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
COPY = 20  # code points
_ENTRIES, _ROOM = 200, 800_000  # texts at the top whose pieces are remembered; code points
Spans = list[tuple[int, int]]
Pieces = list[str]  # in turns: what stays, and what a sign may replace


class NoSkeletonError(ValueError):
    """The record must be checked as it is."""


@dataclass(slots=True)
class Skeleton:
    """A record in two: `rest`, which has signs, and the texts and JSON values that they replace.

    Texts are by the code point of the sign, JSON values by the sign. `others` are values, by their
    pointers, that other values replace. `strings` counts the strings of the original record, keys
    too. `foreign`: it is one of other tools, whose texts may be JSON. `tools` begins with the
    names of the tools that a sign replaces.
    """

    rest: dict[str, Any] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)
    strings: int = 0
    foreign: bool = False
    tools: Any = ()

    def text(self, rest: str) -> str:
        """Returns a text of the rest as it is in the record.

        Raises NoSkeletonError for a text that holds the sign of a JSON value.
        """
        if self.values and _VALUE.search(rest):
            raise NoSkeletonError("part of a JSON value")
        return rest.translate(self.texts)

    def moved(self, pointer: str, rest: Any) -> Any:
        """Returns what a fix moves from a pointer as it is in the record."""
        return self.others[pointer] if pointer in self.others else self.value(rest)

    def value(self, rest: Any) -> Any:
        """Returns a JSON value of the rest as it is in the record.

        Raises NoSkeletonError where that is not certain.
        """
        if isinstance(rest, str):
            return self.values[rest] if rest in self.values else self.text(rest)
        if isinstance(rest, dict):
            if len(rest) == 1 and (key := next(iter(rest))) in self.values:
                return self.values[key]
            return {self.text(key): self.value(value) for key, value in rest.items()}
        if isinstance(rest, list):
            if len(rest) == 1 and rest[0].__class__ is str and rest[0] in self.values:
                return self.values[rest[0]]
            return [self.value(value) for value in rest]
        return rest


class Skeletons:
    """Makes skeletons of records that a schema describes; belongs to one thread."""

    def __init__(self, texts: CleanTexts, schema: RecordSchema) -> None:
        self.texts, self.schema = texts, schema
        self.table = table = texts.table
        self.first, self.declared = texts.first, table.tool_names
        self.bodies = {
            t.name
            for t in table.terminals.values()
            for kind in (t.opens, *t.ends)
            if kind and table.openers[kind].body != "text"
        }
        patterns = [*fragments(texts.inner_tags)] if texts.inner_tags else []
        # Tags that are single ids are found by their letters alone, and near misses of them, too.
        self.exact = not table.plain_tags and set(table.special) == {
            terminal.bare for terminal in table.terminals.values()
        }
        if not self.exact:
            patterns.append(table.literals)
        self.finders: list[Callable[[str], Spans]] = [_finder(pattern) for pattern in patterns]
        self.finders.append(
            lambda text: [(miss.start, miss.end) for miss in near_misses(text, table)]
        )
        self.heads = Memo[str, Pieces](_ENTRIES, room=_ROOM)

    def of(self, record: dict[str, Any]) -> Skeleton:
        """Returns the skeleton of a record that msgspec has decoded.

        Raises NoSkeletonError, and OverflowError for a number that msgspec cannot encode.
        """
        work = _Work(self)
        schema, out = self.schema, work.out.rest
        work.out.strings = len(record)
        for key, value in record.items():
            spec = schema.top.get(key)
            if value.__class__ is str:
                work.out.strings += 1
                heads = spec is not None and spec.kind == STRING
                out[key] = work.signed(self.head(value)) if heads else work.string(value, spec)
            elif key == schema.messages and value.__class__ is list:
                out[key] = [work.item(item, schema) for item in value]
            else:
                out[key] = work.field(value, spec, lost=True)
        return work.out

    def head(self, text: str) -> Pieces:
        """Returns the pieces of a text that may declare tools; many records share such a text."""
        pieces = self.heads.entries.get(text)
        if pieces is None:
            pieces = self.heads.keep(text, self.pieces(text, declares=True), len(text))
        return pieces

    def pieces(self, text: str, *, declares: bool = False) -> Pieces:
        """Splits a text into what must stay, a run without tags, what must stay, and so on."""
        table, finders = self.table, self.finders
        if declares and self.declared is not None:
            finders = [*finders, _finder(self.declared)]
        tags = list(table.lexer.finditer(text)) if len(text) <= _LONGEST else []
        if len(text) > _LONGEST or (tags and any(tag.lastgroup in self.bodies for tag in tags)):
            return [text]
        spans = [[tag.span() for tag in tags], *[finder(text) for finder in finders]]
        if not any(spans):
            core = text.strip()
            return list(text.partition(core)) if core else [text]
        out, stays = [], ""
        # Where each piece that stays begins, and by how much less it does in the skeleton.
        shift: list[tuple[int, int]] = []
        at = less = 0
        stay = _merged([span for of_kind in spans for span in of_kind])
        for start, end in [*stay, (len(text), len(text))]:
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
        if self.exact and not declares:
            return out
        # The same tags must be found again, and no others: a run may begin with a character that
        # keeps the tag before it from being one.
        short = "".join([piece if i % 2 == 0 else chr(_TEXTS) for i, piece in enumerate(out)])
        again = [
            [tag.span() for tag in table.lexer.finditer(short)],
            *[finder(short) for finder in finders],
        ]
        if again != [
            [(a - less, b - less) for a, b in of_kind for less in [_less(shift, a)]]
            for of_kind in spans
        ]:
            return [text]
        return out


class Placeholders:
    """Puts signs in the place of the texts of one record; equal texts share one."""

    def __init__(self, out: Skeleton) -> None:
        self.out = out
        self.signs: dict[str, str] = {}  # signs by text
        self.is_repeated = False  # whether a text of several words, which may copy one, came twice
        self.placeholders: dict[Any, str] = {}  # of JSON values, such as by these as JSON
        self.literal: Container[str] = ()  # ids that stay

    def of(self, text: str) -> str:
        """Returns the sign of a text; empty, itself. Raises NoSkeletonError for a blank one."""
        if text.isspace():
            raise NoSkeletonError("blank")
        return self.sign(text) if text else text

    def sign(self, text: str) -> str:
        """Returns the sign of a text that is not blank."""
        sign = self.signs.get(text)
        if sign is None:
            number = _TEXTS + len(self.signs)
            if number >= _VALUES:
                raise NoSkeletonError("too many texts")
            sign = self.signs[text] = chr(number)
            self.out.texts[number] = text
        elif len(text) >= COPY and " " in text:
            self.is_repeated = True
        return sign

    def hidden(self, value: Any, key: Any) -> Any:
        """Returns the sign of a JSON value; values of one key share one."""
        sign = self.placeholders.get(key)
        if sign is None:
            number = _VALUES + len(self.placeholders)
            if number >= _END:
                raise NoSkeletonError("too many values")
            sign = self.placeholders[key] = chr(number)
            self.out.values[sign] = value
        return sign


class _Work(Placeholders):
    """Builds one skeleton."""

    def __init__(self, skeletons: Skeletons) -> None:
        super().__init__(Skeleton())
        self.skeletons, self.texts = skeletons, skeletons.texts

    def item(self, item: Any, schema: RecordSchema) -> Any:
        """Returns a message, or an item of one, with signs."""
        if item.__class__ is not dict:
            return self.field(item, None, lost=False)
        self.out.strings += len(item)
        tag, role = schema.tag, item.get(schema.tag)
        role_fields = (
            schema.roles.get(schema.aliases.get(role, role)) if role.__class__ is str else None
        )
        fields, lost = role_fields or {}, role_fields is not None
        declares = role_fields is None and role.__class__ is str and role in schema.lifted
        out = {}
        for key, value in item.items():
            if value.__class__ is not str:
                out[key] = self.field(value, fields.get(key), lost=lost)
                continue
            self.out.strings += 1
            if key == tag:
                out[key] = value
            elif declares:
                out[key] = self.signed(self.skeletons.head(value))
            else:
                out[key] = self.string(value, fields.get(key))
        return out

    def string(self, text: str, spec: Field | None) -> str:
        """Returns the string of a key, signed."""
        kind = spec.kind if spec is not None else ""
        if spec is None or kind == STRING:
            return self.text(text)
        if kind == OBJECT:
            return self.quoted(text, spec)
        if kind == LANGUAGE:
            return _LANGUAGE if is_language(text) else text
        if kind == JSON and text:
            hidden: str = self.hidden(text, _encode(text))
            return hidden
        return text

    def field(self, value: Any, spec: Field | None, *, lost: bool) -> Any:
        """Returns a value that is no string, with signs."""
        kind = value.__class__
        if kind is not dict and kind is not list:
            free = spec.kind == JSON if spec is not None else lost
            if value is None or kind is bool or not free:
                return value
            # A number, which may be any, as may its type.
            return self.hidden(value, _encode(value))
        if spec is not None and spec.kind == NUMBER:
            raise NoSkeletonError("a weight of parts depends on the text")
        if spec is not None and spec.items is not None and kind is list:
            return [self.item(item, spec.items) for item in value]
        encoded = _encode(value)
        if encoded.count(b"[") + encoded.count(b"{") > DEEP:
            raise NoSkeletonError("deep")
        self.out.strings += unescaped_quotes(encoded) // 2
        if not value:
            return value
        sign = self.hidden(value, encoded)
        return value if sign is value else {sign: 0} if kind is dict else [sign]

    def quoted(self, text: str, spec: Field) -> str:
        """Returns a string that writes an object, as a string that holds the object's sign."""
        try:
            value = _decode(text)
            encoded = _encode(value)
        except (ValueError, RecursionError):
            return text
        strings = self.out.strings
        if value.__class__ is not dict or unescaped_quotes(encoded) != unescaped_quotes(
            text.encode()
        ):
            return text
        rest = self.field(value, spec, lost=False)
        self.out.strings = strings
        return text if rest is value else json.dumps(rest, ensure_ascii=False)

    def text(self, text: str) -> str:
        for first in self.skeletons.first:
            if first in text:
                if not self.texts.are_clean([text]):
                    if not self.texts.is_usual(text):
                        raise NoSkeletonError
                    return self.signed(self.skeletons.pieces(text))
                break
        core = text.strip()
        if len(core) == len(text):
            return self.sign(text) if core else text
        return text.replace(core, self.sign(core), 1) if core else text

    def signed(self, pieces: Pieces) -> str:
        """Returns pieces as one text, with signs for those that do not stay."""
        return "".join([self.sign(piece) if i % 2 else piece for i, piece in enumerate(pieces)])

    def hidden(self, value: Any, key: Any) -> Any:
        """Returns the sign of a JSON value; the value itself where a string in it spells a tag."""
        return value if self.texts.tagged(value, key) else super().hidden(value, key)


def _finder(pattern: re.Pattern[str]) -> Callable[[str], Spans]:
    """Returns a function from a text to the spans of a pattern."""
    return lambda text: [match.span() for match in pattern.finditer(text)]


def _merged(spans: Spans) -> Spans:
    """Joins spans that overlap or touch."""
    out: Spans = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(end, out[-1][1])
        else:
            out.append((start, end))
    return out


def _less(shift: list[tuple[int, int]], at: int) -> int:
    """Returns by how much a position in a kept piece is less in the skeleton."""
    return next(less for start, less in reversed(shift) if start <= at)
