"""Judges structure: which shapes of records, top-level strings and called names are clean.

Input: shapes (layout.py) and strings, as the pass of scan.py finds them. Each is judged once, by
running the checker on the smallest record that has it; many lines share one.
"""

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import UNSET

from mypt_lint.check.checker import Checker
from mypt_lint.fast.answered import longest
from mypt_lint.fast.clean_texts import CleanTexts
from mypt_lint.fast.layout import Head, Layout, Shape, size_of, smallest
from mypt_lint.fast.quotes import unescaped_quotes
from mypt_spec.adapters.base import spelled
from mypt_spec.episode import Episode, Part, events_of
from mypt_spec.memo import Memo
from mypt_spec.record_schema import LANGUAGE, LIST, OBJECT, ROLE, STRING, Field
from mypt_spec.rules.payload import declared_tools
from mypt_spec.table import TokenTable

_SAMPLES: dict[str, Any] = {STRING: "x", LANGUAGE: "en", OBJECT: {}, LIST: []}
_ITEM_TEXTS = ("x", "", " ")  # a string of an item, by the note on it: text, nothing, white space
_ENTRIES, _ROOM = 2000, 4 << 20  # of a memo, and the sum of its sizes: code points, or numbers
_NUMBERED = re.compile(r'"n\d+"')  # the names in a smallest record


class CleanShapes:
    """The structure that one checker has judged; belongs to one thread.

    `longest` is the length in bytes of the longest line that may be judged so.
    """

    def __init__(self, checker: Checker, texts: CleanTexts, layout: Layout) -> None:
        self.checker, self.texts, self.layout = checker, texts, layout
        self.table = checker.dialect.table
        self.longest = longest(checker)
        self.shapes = Memo[Shape, int](_ENTRIES, room=_ROOM)
        self.ends = Memo[str, int | None](_ENTRIES, room=_ROOM)
        self.heads = Memo[Head, bool](_ENTRIES, room=_ROOM)
        self.values = Memo[tuple[str, str | tuple[str, ...]], bool](_ENTRIES, room=_ROOM)
        self.tools = Memo[Head, frozenset[str]](_ENTRIES, room=_ROOM)
        self.filling = _Words(self.table)

    def shape(self, shape: Shape) -> int:
        """Returns how many strings a record of this shape holds; -1 if it is not clean."""
        record = smallest(self.layout, shape, self.filling)
        fine = not self._joins(record) and self._by_turns(record)
        count = unescaped_quotes(msgspec.json.encode(record)) // 2 if fine else -1
        return self.shapes.keep(shape, count, size_of(shape))

    def _by_turns(self, record: dict[str, Any]) -> bool:
        """Returns whether a smallest record is clean.

        Of more than two turns, each is tried after the first: rules that see structure look at a
        turn and what comes before all turns, and of several turns only that they are several; and
        if all but the last end in the state in which the first ends, the automaton takes them in
        any order. Where they do not, the whole is tried.
        """
        key, messages = self.layout.messages, record[self.layout.messages]
        starts = [i for i, m in enumerate(messages) if m[ROLE] == self.table.turn_opener]
        if len(starts) < 3:
            return self._is_clean(record)
        first = messages[: starts[1]]
        ends = [
            self._end(record | {key: first + messages[a:b]})
            for a, b in pairwise([*starts[1:], len(messages)])
        ]
        alike = None not in ends and {*ends[:-1]} == {self._end(record | {key: first})}
        return alike or self._is_clean(record)

    def _end(self, record: dict[str, Any]) -> int | None:
        """Returns the automaton's state after a smallest record; None if it is not clean."""
        numbers: dict[str, str] = {}
        text = _NUMBERED.sub(
            lambda m: numbers.setdefault(m[0], f'"{self.filling.name(len(numbers))}"'),
            msgspec.json.encode(record).decode(),
        )
        if text in self.ends.entries:
            return self.ends.entries[text]
        episode, state = self._clean_episode(msgspec.json.decode(text)), None
        if episode is not None:
            state = self.checker.dialect.automaton.run(
                [e.terminal for e in events_of(episode.messages, self.table)]
            )
        return self.ends.keep(text, state, len(text))

    def _joins(self, record: dict[str, Any]) -> bool:
        """Returns whether items of one kind are neighbours.

        Their texts may be read as one, which tells more than each of them.
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
        """Returns whether top-level strings are clean in a record of a clean shape."""
        fine = all(self._top(key, value, shape) for key, value in self._named(head).items())
        return self.heads.keep(head, fine, self._size(head))

    def _top(self, key: str, value: str, shape: Shape) -> bool:
        """Returns whether a top-level string is clean.

        Text is as clean as the text of a smallest record; tags in it, and strings that are no text,
        are tried in one.
        """
        spec = self.layout.fields[key]
        kinds: tuple[str, ...] | None = None
        if spec.kind == STRING:
            texts: list[str] = []
            kinds = self.texts.kinds(value, spec.inline, texts)
            if not self.texts.are_clean(texts):
                return False
            if kinds is None:
                return True
        is_clean = self.values.entries.get((key, kinds or value))
        if is_clean is None:
            filled = spelled([Part(kind, "x") for kind in kinds], self.table) if kinds else value
            record = smallest(self.layout, shape, self.filling) | {key: filled}
            size = len(kinds or value)
            is_clean = self.values.keep((key, kinds or value), self._is_clean(record), size)
        return is_clean

    def declared(self, head: Head, shape: Shape, names: dict[str, int]) -> bool:
        """Returns whether the record or the limits declare all names, and tags can hold them.

        Where nothing is declared, all may be called.
        """
        tools = self.tools.entries.get(head)
        if tools is None:
            record = smallest(self.layout, shape, self.filling) | self._named(head)
            record[self.layout.messages] = record[self.layout.messages][:1]
            episode, _ = self.checker.dialect.read(record)
            if episode is None:
                return False
            tools = self.checker.limits.tools | declared_tools(episode, self.table)
            self.tools.keep(head, tools, self._size(head))
        if tools and not tools.issuperset(names):
            return False
        if any(schema.name in names for schema in self.checker.limits.schemas):
            return False
        attributes = {p for t in self.table.terminals.values() for p in t.patterns.values()}
        return all(re.fullmatch(pattern, name) for pattern in attributes for name in names)

    def _size(self, head: Head) -> int:
        """Returns the length of all top-level strings."""
        return sum(map(len, self._named(head).values()))

    def _named(self, head: Head) -> dict[str, str]:
        """Returns the top-level strings by their keys."""
        items = zip(self.layout.heads, head, strict=True)
        return {key: value for key, value in items if value is not UNSET}

    def _is_clean(self, record: dict[str, Any]) -> bool:
        """Returns whether the checker has nothing to say about a smallest record."""
        return self._clean_episode(record) is not None

    def _clean_episode(self, record: dict[str, Any]) -> Episode | None:
        """Returns the Episode of a smallest record, None if the checker finds something.

        All its tools count as declared.
        """
        numbered = _NUMBERED.findall(msgspec.json.encode(record).decode())
        tools = frozenset(name.strip('"') for name in numbered)
        limits = replace(self.checker.limits, tools=tools, max_tokens=None)
        try:
            episode, findings = replace(self.checker, limits=limits, with_fixes=False).read(record)
        except Exception:  # the checker reports it
            return None
        return None if self.checker.selected_findings(findings) else episode


class _Words:
    """Fills a smallest record with words that no rule minds."""

    def __init__(self, table: TokenTable) -> None:
        self.table = table

    def name(self, index: int) -> str:
        """Returns a name that no record needs to declare."""
        return f"n{index}"

    def value(self, spec: Field, note: Any) -> Any:
        """Returns a word, with tags around it where the note tells; or an empty value."""
        if spec.inline and note:
            return spelled([Part(kind, "x") for kind in note], self.table)
        if spec.kind == STRING and note:
            return _ITEM_TEXTS[note]
        return _SAMPLES.get(spec.kind, {})
