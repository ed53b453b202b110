"""Splits records that a `RecordSchema` describes into skeletons and values.

Input: lines of JSON. Output: `splitter.Splits`, for adapter_scan.py.

Theory of operation. msgspec decodes a line into structs made from the schema, and `astuple` lists
the values of their fields. The types of the messages and of these values are the shape of the line.
What to do with each value is decided once for each shape: most are texts that may hold no tags, and
are only gathered. Of the others, the skeleton holds the numbers of names, the kinds of the blocks
inside texts, and the items. Keys that the schema does not have, or that come twice, show to whoever
counts the quotes of the line (clean_filter.py).

In dialect mypt, `{"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role":
"assistant", "content": "Yo"}]}` has the types of a list, a text and no language, of a text and no
context, and of a text, no thought and no citation. Its texts are "Hi", and then those in which
blocks may be, "S" and "Yo". With a citation in the answer, the skeleton has `("text", "cite")`.

A record of three turns or more is judged in pieces: its first turn, then another one, and again the
first where that is not the last. Rules that see structure look at a turn and what comes before all
turns; and where a question always leads to one state, what may follow it depends on no turn before.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import chain, pairwise
from operator import or_
from re import fullmatch
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import astuple

from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_texts import CleanTexts
from mypt_records.names import OPT_OUT
from mypt_spec.adapters.message_splitter import encode_value, new_notes, optional_fields
from mypt_spec.adapters.splitter import Piece, Split, Splits, Splitter, WholeRecord, shallow
from mypt_spec.bodies.plain_schema import arguments, nested
from mypt_spec.memo import Memo
from mypt_spec.record_schema import (
    JSON,
    LANGUAGE,
    LANGUAGE_TAG,
    LIST,
    NAME,
    OBJECT,
    ROLE,
    STRING,
    Field,
)
from mypt_spec.rules.payload import declared_tools

_DEPTH = 6  # deeper values are left to the checker; the size of their type doubles with each level
_ENTRIES, _ROOM = 5000, 4 << 20  # of a memo, and the sum of its sizes: values, or code points
_TYPES: dict[str, Any] = {
    STRING: str, NAME: str, LANGUAGE: str, OBJECT: arguments(_DEPTH), JSON: nested(_DEPTH),
}  # fmt: skip
_METADATA, _MESSAGES = Field("metadata", required=False), Field(LIST)
_SAMPLES: dict[str, Any] = {STRING: "x", OBJECT: {}, JSON: {}}  # in which rules find nothing
_NO_TOOLS = frozenset({""})
_is_language = lru_cache(maxsize=_ENTRIES)(LANGUAGE_TAG.fullmatch)
# Types of the record and its messages, and of the values of all their fields.
Shape = tuple[tuple[type, ...], tuple[type, ...]]
# Takes a kind of value, STRING, NAME, OBJECT or JSON, and a value; returns what replaces it.
Take = Callable[[str, Any], Any]


@dataclass(slots=True, eq=False)  # so that a skeleton with a plan is hashed fast
class _Plan:
    """What to do with the values of a shape, by their places.

    `texts` hold no tags, those that are `inline` may. `is_rich`: whether there is more than these.
    """

    shape: Shape
    texts: list[int] = field(default_factory=list)
    inline: list[tuple[int, Field]] = field(default_factory=list)
    items: list[tuple[int, Field]] = field(default_factory=list)
    names: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    notes: list[int] = field(default_factory=list)
    languages: list[int] = field(default_factory=list)
    is_rich: bool = False


@dataclass(slots=True)
class Values:
    """The names of a record, with their numbers, its texts without tags, and its JSON values."""

    names: dict[str, int] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def take(self, kind: str, value: Any) -> int | None:
        """Adds a value. Returns the number of a name."""
        if kind == NAME:
            return self.names.setdefault(value, len(self.names))
        (self.texts if kind == STRING else self.values).append(value)
        return None


class SchemaSplitter(Splitter):
    """Splits the records of a checker's dialect; belongs to one thread.

    The texts of a line begin with its names and those texts that `replaced` takes, in its order.
    """

    def __init__(self, checker: Checker, texts: CleanTexts) -> None:
        dialect = checker.dialect
        self.checker, self.texts, self.table = checker, texts, dialect.table
        self.schema, self.opener = dialect.adapter.SCHEMA, dialect.table.turn_opener
        self.learnt: list[str] = []  # keys of metadata
        self.fields: dict[type, list[Field]] = {}  # of each type, in order
        self.decode = self.decode_plain = self._decoder()
        self.plans = Memo[Shape, _Plan](_ENTRIES, room=_ROOM)
        self.kinds = Memo[Any, tuple[tuple[str, ...] | None, list[str]]](_ENTRIES, room=_ROOM)
        self.tools = Memo[tuple[Any, ...], frozenset[str]](_ENTRIES, room=_ROOM)
        self.patterns = {p for t in self.table.terminals.values() for p in t.patterns.values()}
        opens = self.table.openers[self.opener].name if self.opener else ""
        states = {row[opens] for row in dialect.automaton.steps if opens in row}
        self.by_turn = len(states) == 1

    def _decoder(self) -> Callable[[bytes], Any]:
        """Returns what decodes records with the keys of metadata that were seen."""
        schema = self.schema
        roles = [self._struct(role, fields, ROLE) for role, fields in schema.roles.items()]
        others = {key: spec for key, spec in schema.top.items() if key != schema.messages}
        top = {schema.messages: _MESSAGES} | others
        record = self._struct("record", top, None, list[reduce(or_, roles)])  # type: ignore[misc]
        self.heads = len(self.fields[record]) - len(self.learnt)  # fields of the record
        return msgspec.json.Decoder(record).decode

    def _struct(
        self, name: str, fields: dict[str, Field], tag: str | None, messages: Any = 0
    ) -> Any:
        """Returns the type of an object: the fields that it needs, others, and metadata.

        A field of another kind is left out, so that the quotes of its key are not accounted for.
        """
        rows: list[Any] = []
        specs: list[Field] = []
        for key, spec in sorted(fields.items(), key=lambda pair: not pair[1].required):
            kind = messages if spec is _MESSAGES else _TYPES.get(spec.kind)
            if spec.items is not None:
                items, by = spec.items.roles.items(), spec.items.tag
                each = [self._struct(item, inner, by) for item, inner in items]
                kind = list[reduce(or_, each)]  # type: ignore[misc]
            if kind is not None:
                default = {} if spec.required else {"default": UNSET}
                kind = kind if spec.required else kind | UnsetType
                rows.append((f"f{len(rows)}", kind, msgspec.field(name=key, **default)))
                specs.append(spec)
        if tag in (None, ROLE):  # items have no metadata
            rows += optional_fields("x", self.learnt, Any)
            specs += [_METADATA] * len(self.learnt)
        kind = msgspec.defstruct(name, rows, gc=False, tag_field=tag, tag=name if tag else None)
        self.fields[kind] = specs
        return kind

    def learn(self, raw: bytes) -> bool:
        try:
            record = msgspec.json.decode(raw)
            keys = dict.fromkeys(k for one in (record, *record[self.schema.messages]) for k in one)
        except (ValueError, TypeError, KeyError, RecursionError):
            return False
        new = new_notes(keys, OPT_OUT, self.learnt)
        self.learnt += new
        self.decode = self._decoder() if new else self.decode
        return bool(new)

    def split(self, lines: list[bytes]) -> Splits:
        out = Splits([], [], [], {})
        decode, plans, firsts = self.decode, self.plans.entries, self.texts.first
        texts = out.texts
        for i, raw in enumerate(lines):
            key: Any = None
            try:
                shape, values = _values(decode(raw))
                key = plan = plans.get(shape) or self._plan(shape)
                free = [values[n] for n in plan.texts]
                parts: list[Any] = []
                tagged, inner = list[str](), list[str]()
                for n, spec in plan.inline:
                    value = values[n]
                    for first in firsts:
                        if first in value:
                            kinds, inside = self._kinds(value, spec.inline)
                            inner += inside
                            if kinds is None:
                                free.append(value)
                            else:
                                parts.append((n, kinds))
                                tagged.append(value)
                            break
                    else:
                        free.append(value)
                for n in plan.languages:
                    if not _is_language(values[n]):
                        raise WholeRecord
                if tagged or plan.is_rich:
                    names: dict[str, int] = {}
                    numbers = [names.setdefault(values[n], len(names)) for n in plan.names]
                    json_values = [values[n] for n in plan.values]
                    notes = [values[n] for n in plan.notes]
                    for note in notes:
                        shallow(note)
                    for n, _ in plan.items:
                        by_kind = Values(names, free, json_values)
                        parts.append((n, tuple(self._items(values[n], by_kind.take))))
                    if names:
                        self._allow(names, shape, values)
                        free = [*names, *free]
                    if notes or json_values or tagged:
                        out.more[i] = Split(notes, json_values, tagged=tagged)
                    key = (plan, *numbers, *parts)
                texts += free
                texts += inner
            except (ValueError, RecursionError, WholeRecord):
                key = None
            out.keys.append(key)
            out.ends.append(len(texts))
        return out

    def _plan(self, shape: Shape) -> _Plan:
        """Returns what is to be done with the values of a shape."""
        plan = _Plan(shape)
        places = {
            STRING: plan.texts, NAME: plan.names, OBJECT: plan.values, JSON: plan.values,
            LANGUAGE: plan.languages, _METADATA.kind: plan.notes,
        }  # fmt: skip
        fields = [spec for kind in shape[0] for spec in self.fields[kind]]
        for n, (spec, kind) in enumerate(zip(fields, shape[1], strict=True)):
            if kind is UnsetType or spec is _MESSAGES:
                continue
            if n < self.heads and spec.kind in (OBJECT, JSON):
                raise WholeRecord  # what a value at the top means, only the adapter knows
            if spec.inline or spec.items is not None:
                (plan.inline if spec.inline else plan.items).append((n, spec))
            else:
                places[spec.kind].append(n)
        plan.is_rich = bool(plan.names or plan.values or plan.notes or plan.items)
        return self.plans.keep(shape, plan, len(shape[1]))

    def _kinds(
        self, text: str, inline: tuple[str, ...]
    ) -> tuple[tuple[str, ...] | None, list[str]]:
        """Returns the kinds of the parts of a text, None where it is all text; and their texts."""
        entry = self.kinds.entries.get((text, inline))
        if entry is None:
            inner: list[str] = []
            entry = self.texts.kinds(text, inline, inner), inner
            self.kinds.keep((text, inline), entry, len(text))
        return entry

    def _items(self, items: Iterable[Any], take: Take) -> Iterable[tuple[Any, ...]]:
        """Yields the type of each item, and what is in the place of its values.

        A text that is empty or blank stays: its meaning depends on the other items. Texts of
        neighbours of one kind may be read as one, which tells more than each of them.
        """
        before = None
        for item in items:
            kind = type(item)
            if kind is before:
                raise WholeRecord
            before = kind
            pairs = zip(self.fields[kind], astuple(item), strict=True)
            yield (
                kind,
                *(
                    value if spec.kind == STRING and not value.strip() else take(spec.kind, value)
                    for spec, value in pairs
                ),
            )

    def _allow(self, names: Iterable[str], shape: Shape, values: list[Any]) -> None:
        """Raises WholeRecord for names that a tag cannot hold, or that no tool has.

        Where nothing is declared, all may be called.
        """
        if self.table.tagged or (
            self.patterns and not all(fullmatch(p, n) for p in self.patterns for n in names)
        ):
            raise WholeRecord
        tools = self.checker.limits.tools
        if self.table.tool_names is not None:
            heads = tuple(values[1 : self.heads])
            tools = self.tools.entries.get(heads, _NO_TOOLS)
            if tools is _NO_TOOLS:
                top = shape[0][0](*values[: len(self.fields[shape[0][0]])])
                record = msgspec.json.decode(encode_value(top))
                record[self.schema.messages] = record[self.schema.messages][:1]
                episode, _ = self.checker.dialect.read(record)
                if episode is None:
                    raise WholeRecord
                tools = self.checker.limits.tools | declared_tools(episode, self.table)
                self.tools.keep(heads, tools, sum(len(head) for head in heads if head))
        if tools and not tools.issuperset(names):
            raise WholeRecord

    def replaced(self, raw: bytes, take: Take, first: int = 0) -> dict[str, Any]:
        """Returns the record of a line that splits, with other values, and without metadata.

        A text with tags stays as it is, and so do values of fields before the number `first`.
        """
        shape, values = _values(self.decode_plain(raw))
        plan = self.plans.entries.get(shape) or self._plan(shape)
        fields = [spec for kind in shape[0] for spec in self.fields[kind]]
        inline = [n for n, spec in plan.inline if self._kinds(values[n], spec.inline)[0] is None]
        for n in (*plan.names, *plan.values, *plan.texts, *inline):
            values[n] = take(fields[n].kind, values[n]) if n >= first else values[n]
        for n, _ in plan.items:
            values[n] = [kind(*inner) for kind, *inner in self._items(values[n], take)]
        rest = iter(values)
        top, *messages = [kind(*(next(rest) for _ in self.fields[kind])) for kind in shape[0]]
        top.f0 = messages
        out: dict[str, Any] = msgspec.json.decode(encode_value(top))
        return out

    def _turns(self, roles: Sequence[str]) -> list[int]:
        """Returns where turns begin, if there are three or more that are judged one by one."""
        starts = [i for i, role in enumerate(roles) if role == self.opener]
        return starts if len(starts) > 2 and self.by_turn else []

    def keys(self, key: Any) -> list[bytes]:
        """Returns the key of the first turn with what comes before it, and of each turn after it.

        The key of a record that is not cut holds all of it.
        """
        plan, *rest = key if isinstance(key, tuple) else (key,)
        shape, names = plan.shape, plan.names
        places: dict[int, Any] = dict.fromkeys(n for n, _ in plan.inline)
        places |= dict.fromkeys([*plan.texts, *plan.values, *plan.languages])
        places |= dict(zip(names, rest, strict=False)) | dict(rest[len(names) :])
        each: list[Any] = []
        n = 0
        for kind in shape[0]:
            fields = range(n, n := n + len(self.fields[kind]))
            each.append((kind, [(m - fields[0], places[m]) for m in fields if m in places]))
        starts = self._turns([str(kind.__struct_config__.tag) for kind in shape[0][1:]])
        if not starts:
            return [repr(each).encode() + b"!"]  # what begins like it is judged as less
        first = repr(each[: 1 + starts[1]])
        turns = [each[1 + a : 1 + b] for a, b in pairwise([*starts[1:], len(each) - 1])]
        turns[-1].append("last")
        return [first.encode(), *[f"{first}{turn}".encode() for turn in turns]]

    def pieces(self, raw: bytes) -> list[Piece]:
        record = self.replaced(raw, _SAMPLES.get, self.heads)  # what a head declares may be called
        messages = record[self.schema.messages]
        starts = self._turns([message[ROLE] for message in messages])
        if not starts:
            return [Piece(record, record)]
        first, second = starts[:2]
        out = [Piece(None, record | {self.schema.messages: messages[:second]})]
        for begin, end in pairwise([*starts[1:], len(messages)]):
            turns = messages[:second] + messages[begin:end]
            turns += messages[first:second] if end < len(messages) else []
            out.append(Piece(record | {self.schema.messages: turns}, messages[begin:end]))
        return out


def _values(record: Any) -> tuple[Shape, list[Any]]:
    """Returns the shape of a record, and its values with those of its messages."""
    every = (record, *record.f0)
    values = [*chain.from_iterable(map(astuple, every))]
    return (tuple(map(type, every)), tuple(map(type, values))), values
