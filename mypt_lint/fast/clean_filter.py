"""Prove lines of JSONL clean without reading them into Episodes.

`CleanFilter` may only call a line clean when `Checker.line` finds nothing in it; a line in doubt
goes to the checker. (A property test holds the two together.) How:

- msgspec decodes a line and checks its schema in one pass; its types are derived from the adapter's
  `SCHEMA`.
- Every string is counted. Valid JSON has exactly two unescaped quotes a string, so a key that
  stands twice, or one that msgspec skipped, shows as quotes that nobody accounts for. No count can
  be too high, so a block of lines is counted at once; where its sums differ, each line is.
- Placement, phase and names depend only on the *shape* of a record: the roles, which optional keys
  are there, which names are equal, which inline tags. A shape is checked once, by running the
  checker on a skeleton of it. So are head strings such as the system prompt, which repeat from line
  to line.
- Text without the first character of any tag holds no tag.

Records that a `SCHEMA` does not describe are judged by their likeness, which the adapter tells: one
record of each is checked, and another is as clean if its texts are (see alike.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import BytesIO
from itertools import chain, pairwise
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from mypt_lint.check.checker import Checker
from mypt_lint.check.suppress import OPT_OUT
from mypt_lint.fast.answered import longest
from mypt_lint.fast.findings_cache import FindingsCache
from mypt_lint.fast.likeness import Alike
from mypt_lint.fast.quotes import unescaped_quotes
from mypt_lint.fast.scan import BITS, SAID, Head, Layout, Scan, Shape, compile_scan, noted
from mypt_spec.adapters.base import Reader, spelled
from mypt_spec.damage.cut_tags import fragment, inner_tags
from mypt_spec.damage.near_miss import beginnings, near_miss
from mypt_spec.episode import Episode, Part, Place, events_of
from mypt_spec.record_schema import LANGUAGE, LIST, NAME, OBJECT, ROLE, STRING, Field, RecordSchema
from mypt_spec.rules.payload import declared_tools

_SAMPLES: dict[str, Any] = {STRING: "x", LANGUAGE: "en", OBJECT: {}, LIST: []}
_MEMO, _LONG = (
    2000,
    2000,
)  # entries of a memo, and the length of the longest: together they bound its memory
_METADATA = 40  # keys
_K = TypeVar("_K")
_V = TypeVar("_V")
_NUMBERED = re.compile(r'"n\d+"')  # the names in a skeleton
_KEY = re.compile(r"_[\w.:-]{0,60}", re.ASCII)


class CleanFilter:
    """Proves lines clean for one checker.

    Remembers shapes and head strings, so it belongs to one thread.
    """

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        dialect = checker.dialect
        self.table = dialect.table
        self.layout = Layout.of(dialect.adapter.SCHEMA)
        self.inner_tags = inner_tags(self.table, dialect.automaton)
        self.first = tuple(
            sorted(self.table.first_characters | {tag[-1] for tag in self.inner_tags})
        )
        self.longest = longest(checker)
        self.shapes: dict[Shape, int] = {}
        self.ends: dict[str, int | None] = {}
        self.heads: dict[Head, bool] = {}
        self.fine: dict[
            str, bool
        ] = {}  # texts with something like the beginning of a tag, and no tag
        self.beginnings = beginnings(
            (*self.table.special, *(t.shown for t in self.table.plain_tags))
        )
        self.values: dict[tuple[str, str | tuple[str, ...]], bool] = {}
        self.tools: dict[Head, frozenset[str]] = {}
        self.inline = Reader(self.table, []).inline
        self.spellings: dict[tuple[str, ...], frozenset[str]] = {}
        self.encoder = msgspec.json.Encoder()
        self.room = bytearray()
        self.alike: Alike | None = Alike(self) if hasattr(dialect.adapter, "likeness") else None
        self.scan: Scan = self.alike.scan if self.alike else compile_scan(self.layout, self)
        self.recall = FindingsCache(self)

    def unproved(self, data: bytes) -> tuple[int, list[tuple[int, bytes]]]:
        """Returns how many lines a block has, and each that is not proved clean with its index."""
        lines = BytesIO(data).readlines()  # by memchr: `split` takes five times as long
        doubtful = self._doubtful(lines, unescaped_quotes(data))
        return len(lines), [(i, lines[i].removesuffix(b"\n")) for i in doubtful]

    def clean(self, raw: bytes) -> bool:
        """Whether a line (without its line end) is proved clean."""
        return not self._doubtful([raw], unescaped_quotes(raw))

    def doubtful(self, lines: list[bytes], kept: list[Any] | None = None) -> list[int]:
        """The indexes of the lines (without line ends) that are not proved clean. `kept`, if given,
        gets what each line holds, as `compile_scan` says.
        """
        return self._doubtful(lines, unescaped_quotes(b"\n".join(lines)), kept)

    def _doubtful(
        self, lines: list[bytes], quotes: int, kept: list[Any] | None = None
    ) -> list[int]:
        """The indexes of the lines that are not proved clean.

        `quotes`: the unescaped quotes of all of them.
        """
        bad, strings, values = self.scan(lines, kept)
        rest = sorted(set(range(len(lines))).difference(bad)) if bad else range(len(lines))
        if len(bad) < len(rest):
            quotes -= sum([unescaped_quotes(lines[i]) for i in bad])
        else:
            quotes = sum([unescaped_quotes(lines[i]) for i in rest])
        if quotes == 2 * strings + self._quotes(values):
            return bad
        if len(rest) == 1:
            again = self._learn(lines[rest[0]]) and self.clean(lines[rest[0]])
            return bad if again else sorted([*bad, *rest])
        return sorted([*bad, *(i for i in rest if not self.clean(lines[i]))])

    def _quotes(self, values: list[Any]) -> int:
        """The quotes of the strings in JSON values; an odd number where there is doubt, such as a
        tag in a string.
        """
        if not values:
            return 0
        try:
            self.encoder.encode_into(values, self.room)
        except (OverflowError, RecursionError):  # an integer beyond 64 bits, for one
            return -1
        if (
            not self.alike
            and any(c.encode() in self.room for c in self.first)
            and self.table.literals.search(_strings(values))
        ):
            return -1
        return unescaped_quotes(self.room)

    def _learn(self, raw: bytes) -> bool:
        """Expect the metadata keys of a line from now on; whether there were new ones."""
        known = self.layout.metadata
        if self.alike or sum(map(len, known.values())) >= _METADATA:
            return False
        try:
            record = msgspec.json.decode(raw)
            items = [
                ("", record),
                *((message[ROLE], message) for message in record[self.layout.messages]),
            ]
            fresh = [
                (role, key)
                for role, item in items
                for key in item
                if _KEY.fullmatch(key) and key not in known[role] and key != OPT_OUT
            ]
        except (
            ValueError,
            TypeError,
            KeyError,
            RecursionError,
        ):  # a key that stands twice can be anything
            return False
        for role, key in dict.fromkeys(fresh[:_METADATA]):
            known[role].append(key)
        if fresh:
            self.scan = compile_scan(self.layout, self)
        return bool(fresh)

    def texts(self, texts: list[str]) -> bool:
        """No text is empty or blank, none holds a tag or almost one."""
        if not all(texts) or any(map(str.isspace, texts)):
            return False
        for text in texts:
            if text in self.fine:
                continue
            begun = any(first in text and regex.search(text) for first, regex in self.beginnings)
            if begun and (
                self.table.literals.search(text) or near_miss(text, self.table) is not None
            ):
                return False
            if fragment(text, self.inner_tags) is not None:
                return False
            if begun:
                _remember(self.fine, text, True, len(text))
        return True

    def tagged(self, value: Any, encoded: bytes) -> bool:
        """Whether a string in a JSON value, here also encoded, spells a tag."""
        return (
            any(c.encode() in encoded for c in self.first)
            and self.table.literals.search(_strings([value])) is not None
        )

    def kinds(self, text: str, inline: tuple[str, ...], texts: list[str]) -> tuple[str, ...] | None:
        """The kinds of the parts of a string with inline tags, None where it is all text; adds
        their texts to `texts`.
        """
        allowed = self._spellings(inline)
        if allowed and not allowed.issuperset(self.table.literals.findall(text)):
            texts.append(text)  # a tag in it may not stand there: no shape is clean with it
            return None
        parts = self.inline(text, Place(), *inline)
        texts += [part.text for part in parts if part.kind != "text"]
        plain = [part.text for part in parts if part.kind == "text"]
        texts += (
            ["".join(plain)] if plain else []
        )  # text around inline tags is blank only if all of it is
        kinds = tuple([part.kind for part in parts])
        return None if kinds == ("text",) else kinds

    def _spellings(self, inline: tuple[str, ...]) -> frozenset[str]:
        """Returns tags of blocks that a text may hold; none if one has several spellings."""
        found = self.spellings.get(inline)
        if found is None:
            tags = [
                tag
                for kind in inline
                for tag in (self.table.openers[kind], self.table.closers[kind])
            ]
            found = (
                frozenset(tag.bare for tag in tags)
                if all(tag.bare in self.table.special for tag in tags)
                else frozenset()
            )
            self.spellings[inline] = found
        return found

    def shape(self, shape: Shape) -> int:
        """The strings of a record of this shape, without those in JSON values; -1 if it is not
        clean.
        """
        record = self._skeleton(shape)
        fine = not self._joins(record) and self._by_turns(record)
        count = unescaped_quotes(msgspec.json.encode(record)) // 2 if fine else -1
        return _remember(
            self.shapes, shape, count, sum(len(n) if isinstance(n, tuple) else 1 for n in shape)
        )

    def _by_turns(self, record: dict[str, Any]) -> bool:
        """Whether a skeleton is clean. Of more than two turns, each is tried behind the first:
        rules see a turn and what stands before all turns, and of several turns only that they are
        several; and if all but the last end in the state in which the first ends, the automaton
        takes them in any order. Where they do not, the whole is tried.
        """
        key, messages = self.layout.messages, record[self.layout.messages]
        starts = [
            i for i, message in enumerate(messages) if message[ROLE] == self.table.turn_opener
        ]
        if len(starts) < 3:
            return self._says_nothing(record)
        first = messages[: starts[1]]
        ends = [
            self._end(record | {key: first + messages[a:b]})
            for a, b in pairwise([*starts[1:], len(messages)])
        ]
        alike = None not in ends and {*ends[:-1]} == {self._end(record | {key: first})}
        return alike or self._says_nothing(record)

    def _end(self, record: dict[str, Any]) -> int | None:
        """The automaton's state behind a clean skeleton; None if it is not clean. Remembered."""
        numbers: dict[str, str] = {}
        text = _NUMBERED.sub(
            lambda m: numbers.setdefault(m[0], f'"{_name(len(numbers))}"'),
            msgspec.json.encode(record).decode(),
        )
        if text in self.ends:
            return self.ends[text]
        episode, state = self._clean_episode(msgspec.json.decode(text)), None
        if episode is not None:
            state = self.checker.dialect.automaton.run(
                [e.terminal for e in events_of(episode.messages, self.table)]
            )
        return _remember(self.ends, text, state, len(text))

    def _joins(self, record: dict[str, Any]) -> bool:
        """Whether items of one kind stand side by side: their texts may be one, which says more
        than each of them.
        """
        rows = {
            role: [(key, spec.items.tag) for key, spec in rows if spec.items]
            for role, rows in self.layout.roles
        }
        lists = [
            (m[key], tag)
            for m in record[self.layout.messages]
            for key, tag in rows[m[ROLE]]
            if key in m
        ]
        return any(one[tag] == two[tag] for items, tag in lists for one, two in pairwise(items))

    def head(self, head: Head, shape: Shape) -> bool:
        """Whether top-level strings are clean in a record of a clean shape."""
        fine = all(self._top(key, value, shape) for key, value in self._named(head).items())
        return _remember(self.heads, head, fine, self._size(head))

    def _top(self, key: str, value: str, shape: Shape) -> bool:
        """Text is as clean as the text of a skeleton; tags in it, and strings that are no text, are
        tried in one.
        """
        spec = self.layout.fields[key]
        kinds: tuple[str, ...] | None = None
        if spec.kind == STRING:
            texts: list[str] = []
            kinds = self.kinds(value, spec.inline, texts)
            if not self.texts(texts):
                return False
            if kinds is None:
                return True
        known = self.values.get((key, kinds or value))
        if known is None:
            filled = spelled([Part(kind, "x") for kind in kinds], self.table) if kinds else value
            known = self._says_nothing(self._skeleton(shape) | {key: filled})
            _remember(self.values, (key, kinds or value), known, len(kinds or value))
        return known

    def declared(self, head: Head, shape: Shape, names: dict[str, int]) -> bool:
        """Whether the top-level strings, or the limits, declare all names, and tags can hold them;
        where nothing is declared, all may be called.
        """
        tools = self.tools.get(head)
        if tools is None:
            record = self._skeleton(shape) | self._named(head)
            record[self.layout.messages] = record[self.layout.messages][:1]
            episode, _ = self.checker.dialect.read(record)
            if episode is None:
                return False
            tools = self.checker.limits.tools | declared_tools(episode, self.table)
            _remember(self.tools, head, tools, self._size(head))
        if tools and not tools.issuperset(names):
            return False
        if any(schema.name in names for schema in self.checker.limits.schemas):
            return False
        return all(pattern.fullmatch(name) for pattern in self.table.attributes for name in names)

    def _size(self, head: Head) -> int:
        return sum(map(len, self._named(head).values()))

    def _named(self, head: Head) -> dict[str, str]:
        return {
            key: value
            for key, value in zip(self.layout.heads, head, strict=True)
            if value is not UNSET
        }

    def _says_nothing(self, record: dict[str, Any]) -> bool:
        """Whether the checker has nothing to say about a skeleton."""
        return self._clean_episode(record) is not None

    def _clean_episode(self, record: dict[str, Any]) -> Episode | None:
        """The Episode of a skeleton about which the checker has nothing to say, all its tools
        counting as declared.
        """
        tools = frozenset(_name(i) for i in range(len(record[self.layout.messages])))
        limits = replace(self.checker.limits, tools=tools, max_tokens=None)
        try:
            episode, findings = replace(self.checker, limits=limits, with_fixes=False).read(record)
        except Exception:  # the checker reports it
            return None
        return None if self.checker.shown(findings) else episode

    def _skeleton(self, shape: Shape) -> dict[str, Any]:
        """The smallest record of a shape."""
        present, *notes = shape
        record = {
            key: _SAMPLES[self.layout.fields[key].kind]
            for bit, key in enumerate(self.layout.heads)
            if present >> bit & 1
        }
        messages: list[dict[str, Any]] = []
        rest = iter(notes)
        for code in rest:
            role, rows = self.layout.roles[code >> BITS]
            message: dict[str, Any] = {ROLE: role}
            for bit, (key, spec) in enumerate(rows):
                note: Any = next(rest) if noted(spec) else None
                if not code >> bit & 1:
                    continue
                if spec.items is not None:
                    message[key] = list(_items(spec.items, iter(note)))
                elif spec.kind == NAME:
                    message[key] = _name(note or 0)
                elif note:
                    message[key] = spelled([Part(kind, "x") for kind in note], self.table)
                else:
                    message[key] = _SAMPLES.get(spec.kind, {})
            messages.append(message)
        return record | {self.layout.messages: messages}


def _items(schema: RecordSchema, notes: Iterator[int]) -> Iterator[dict[str, Any]]:
    """The smallest items of a shape; see scan.py."""
    kinds = list(schema.roles.items())
    for number in notes:
        kind, fields = kinds[number]
        yield {schema.tag: kind} | {key: _item(spec, notes) for key, spec in fields.items()}


def _item(spec: Field, notes: Iterator[int]) -> Any:
    if spec.kind == NAME:
        return _name(next(notes))
    return SAID[next(notes)] if spec.kind == STRING else _SAMPLES.get(spec.kind, {})


def _remember(memo: dict[_K, _V], key: _K, value: _V, size: int) -> _V:
    if size <= _LONG:
        if len(memo) >= _MEMO:
            memo.clear()
        memo[key] = value
    return value


def _name(index: int) -> str:
    return f"n{index}"


def _strings(values: list[Any]) -> str:
    """All strings in JSON values, keys too, a line each."""
    found: list[str] = []
    while values:
        found += [v for v in values if v.__class__ is str]
        nested: list[Iterable[Any]] = [v for v in values if v.__class__ is list]
        for item in [v for v in values if v.__class__ is dict]:
            found += item
            nested.append(item.values())
        values = list(chain.from_iterable(nested))
    return "\n".join(found)
