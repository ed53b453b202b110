"""Proves lines of JSONL clean without reading them into Episodes.

Input: lines. Output: those that are not proved clean, for the checker. `CleanFilter` may only call
a line clean when `Checker.line` finds nothing in it; `tests/property/test_fast.py` holds it to
that.

Theory of operation. What a rule sees (its column `sees`) is split off the line and judged once:

- The structure, scan.py's shape: the roles, which optional keys are there, which names are equal,
  which inline tags. A shape is judged by running the checker on the smallest record that has it. So
  are head strings such as the system prompt, which many lines share.
- The texts, each by itself: text without the first character of any tag holds no tag.
- Every string is counted. Valid JSON has exactly two unescaped quotes a string, so a key that
  occurs twice, or one that msgspec skipped, shows as quotes that nobody accounts for. No count can
  be too high, so a block of lines is counted at once; where its sums differ, each line is.

A thousand lines like the one at the head of scan.py, with other words in each, so cost one run of
the checker, on `{"system": "x", "messages": [{"role": "user", "content": "x"}, {"role":
"assistant", "content": "x"}]}`, a look for `<` in each text, and one count of quotes.

Records that no `SCHEMA` describes are split by their adapter (adapter_scan.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from io import BytesIO
from itertools import chain, pairwise
from typing import Any

import msgspec
from msgspec import UNSET

from mypt_lint.check.checker import Checker
from mypt_lint.check.suppress import OPT_OUT
from mypt_lint.fast.adapter_scan import AdapterScan
from mypt_lint.fast.answered import longest
from mypt_lint.fast.layout import Layout, Shape, size_of, smallest
from mypt_lint.fast.quotes import unescaped_quotes
from mypt_lint.fast.scan import Head, Scan, Taken, compile_scan
from mypt_spec.adapters.base import Reader, spelled
from mypt_spec.damage.cut_tags import fragment, inner_tags
from mypt_spec.damage.near_miss import beginnings, near_miss
from mypt_spec.episode import Episode, Part, Place, events_of
from mypt_spec.memo import Memo
from mypt_spec.record_schema import LANGUAGE, LIST, OBJECT, ROLE, STRING, Field
from mypt_spec.rules.payload import declared_tools
from mypt_spec.table import TokenTable

_SAMPLES: dict[str, Any] = {STRING: "x", LANGUAGE: "en", OBJECT: {}, LIST: []}
_ITEM_TEXTS = ("x", "", " ")  # a string of an item, by the note on it: text, nothing, white space
_ENTRIES, _ROOM = 2000, 4 << 20  # of a memo, and the sum of its sizes: code points, or numbers
_METADATA = 40  # keys
_NUMBERED = re.compile(r'"n\d+"')  # the names in a smallest record
_KEY = re.compile(r"_[\w.:-]{0,60}", re.ASCII)


class CleanFilter:
    """Proves lines clean for one checker.

    Remembers shapes and head strings, so it belongs to one thread. With `keep`, it also tells what
    clean lines are made of.
    """

    def __init__(self, checker: Checker, *, keep: bool = False) -> None:
        self.checker, self.keep = checker, keep
        dialect = checker.dialect
        self.table = dialect.table
        self.layout = Layout.of(dialect.adapter.SCHEMA)
        self.inner_tags = inner_tags(self.table, dialect.automaton)
        last = {tag[-1] for tag in self.inner_tags}  # of a tag whose beginning was cut off
        self.first = tuple(sorted(self.table.first_characters | last))
        self.longest = longest(checker)
        self.shapes = Memo[Shape, int](_ENTRIES, room=_ROOM)
        self.ends = Memo[str, int | None](_ENTRIES, room=_ROOM)
        self.heads = Memo[Head, bool](_ENTRIES, room=_ROOM)
        # Texts with something like the beginning of a tag, and no tag.
        self.fine = Memo[str, bool](_ENTRIES, room=_ROOM)
        shown = (*self.table.special, *(t.shown for t in self.table.plain_tags))
        self.beginnings = beginnings(shown)
        self.values = Memo[tuple[str, str | tuple[str, ...]], bool](_ENTRIES, room=_ROOM)
        self.tools = Memo[Head, frozenset[str]](_ENTRIES, room=_ROOM)
        self.inline = Reader(self.table, []).inline
        self.filling = _Words(self.table)
        self.spellings: dict[tuple[str, ...], frozenset[str]] = {}
        self.encoder = msgspec.json.Encoder()
        self.encoded = bytearray()
        self.by_adapter = AdapterScan(self) if dialect.adapter.splits else None
        own = self.by_adapter
        self.scan: Scan = own.scan if own else compile_scan(self.layout, self, keep=keep)

    def unproved(self, data: bytes) -> tuple[int, list[tuple[int, bytes]]]:
        """Returns how many lines a block has, and each that is not proved clean with its index."""
        lines = BytesIO(data).readlines()  # by memchr: `split` takes five times as long
        doubtful = self._doubtful(lines, unescaped_quotes(data))
        return len(lines), [(i, lines[i].removesuffix(b"\n")) for i in doubtful]

    def clean(self, raw: bytes) -> bool:
        """Returns whether a line (without its line end) is proved clean."""
        return not self._doubtful([raw], unescaped_quotes(raw))

    def doubtful(self, lines: list[bytes], kept: list[Taken | None] | None = None) -> list[int]:
        """Returns the indexes of the lines (without line ends) that are not proved clean.

        `kept`, if given, gets what each line is made of, as `compile_scan` says.
        """
        return self._doubtful(lines, unescaped_quotes(b"\n".join(lines)), kept)

    def _doubtful(
        self, lines: list[bytes], quotes: int, kept: list[Taken | None] | None = None
    ) -> list[int]:
        """Returns the indexes of the lines that are not proved clean.

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
        """Returns the quotes of the strings in JSON values.

        An odd number where there is doubt, such as a tag in a string.
        """
        if not values:
            return 0
        try:
            self.encoder.encode_into(values, self.encoded)
        except (OverflowError, RecursionError):  # an integer beyond 64 bits, for one
            return -1
        if not self.by_adapter and self.tagged(values, self.encoded):
            return -1
        return unescaped_quotes(self.encoded)

    def _learn(self, raw: bytes) -> bool:
        """Expects the metadata keys of a line from now on; returns whether there were new ones."""
        known = self.layout.metadata
        if self.by_adapter or sum(map(len, known.values())) >= _METADATA:
            return False
        try:
            record = msgspec.json.decode(raw)
            items = [("", record), *((m[ROLE], m) for m in record[self.layout.messages])]
            fresh = [
                (role, key)
                for role, item in items
                for key in item
                if _KEY.fullmatch(key) and key not in known[role] and key != OPT_OUT
            ]
        except (ValueError, TypeError, KeyError, RecursionError):
            return False  # a key that occurs twice can be anything
        for role, key in dict.fromkeys(fresh[:_METADATA]):
            known[role].append(key)
        if fresh:
            self.scan = compile_scan(self.layout, self, keep=self.keep)
        return bool(fresh)

    def texts(self, texts: list[str]) -> bool:
        """Returns whether no text is empty or blank, and none holds a tag or almost one."""
        if not all(texts) or any(map(str.isspace, texts)):
            return False
        for text in texts:
            if text in self.fine.known:
                continue
            begun = any(first in text and regex.search(text) for first, regex in self.beginnings)
            if begun and (self.has_tag(text) or near_miss(text, self.table) is not None):
                return False
            if fragment(text, self.inner_tags) is not None:
                return False
            if begun:
                self.fine.keep(text, True, len(text))
        return True

    def has_tag(self, text: str) -> bool:
        """Returns whether a text spells a tag."""
        return self.table.literals.search(text) is not None

    def tagged(self, value: Any, encoded: bytes | bytearray) -> bool:
        """Returns whether a string in a JSON value, here also encoded, spells a tag."""
        return any(c.encode() in encoded for c in self.first) and self.has_tag(_strings([value]))

    def kinds(self, text: str, inline: tuple[str, ...], texts: list[str]) -> tuple[str, ...] | None:
        """Returns the kinds of the parts of a string with inline tags, None where it is all text.

        Adds the text of each part to `texts`.
        """
        allowed = self._spellings(inline)
        if allowed and not allowed.issuperset(self.table.literals.findall(text)):
            texts.append(text)  # such a tag may not be there: no shape is clean with it
            return None
        parts = self.inline(text, Place(), *inline)
        texts += [part.text for part in parts if part.kind != "text"]
        plain = [part.text for part in parts if part.kind == "text"]
        # Text around inline tags is blank only if all of it is.
        texts += ["".join(plain)] if plain else []
        kinds = tuple([part.kind for part in parts])
        return None if kinds == ("text",) else kinds

    def _spellings(self, inline: tuple[str, ...]) -> frozenset[str]:
        """Returns tags of blocks that a text may hold; none if one has several spellings."""
        found = self.spellings.get(inline)
        if found is None:
            blocks = (self.table.openers, self.table.closers)
            tags = frozenset(tags[kind].bare for tags in blocks for kind in inline)
            found = tags if all(tag in self.table.special for tag in tags) else frozenset()
            self.spellings[inline] = found
        return found

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
        if text in self.ends.known:
            return self.ends.known[text]
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
            kinds = self.kinds(value, spec.inline, texts)
            if not self.texts(texts):
                return False
            if kinds is None:
                return True
        known = self.values.known.get((key, kinds or value))
        if known is None:
            filled = spelled([Part(kind, "x") for kind in kinds], self.table) if kinds else value
            record = smallest(self.layout, shape, self.filling) | {key: filled}
            size = len(kinds or value)
            known = self.values.keep((key, kinds or value), self._is_clean(record), size)
        return known

    def declared(self, head: Head, shape: Shape, names: dict[str, int]) -> bool:
        """Returns whether the record or the limits declare all names, and tags can hold them.

        Where nothing is declared, all may be called.
        """
        tools = self.tools.known.get(head)
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
        return all(pattern.fullmatch(name) for pattern in self.table.attributes for name in names)

    def _size(self, head: Head) -> int:
        """Returns the length of all top-level strings."""
        return sum(map(len, self._named(head).values()))

    def _named(self, head: Head) -> dict[str, str]:
        """Returns the top-level strings by their keys."""
        given = zip(self.layout.heads, head, strict=True)
        return {key: value for key, value in given if value is not UNSET}

    def _is_clean(self, record: dict[str, Any]) -> bool:
        """Returns whether the checker has nothing to say about a smallest record."""
        return self._clean_episode(record) is not None

    def _clean_episode(self, record: dict[str, Any]) -> Episode | None:
        """Returns the Episode of a smallest record, None if the checker finds something.

        All its tools count as declared.
        """
        tools = frozenset(self.filling.name(i) for i in range(len(record[self.layout.messages])))
        limits = replace(self.checker.limits, tools=tools, max_tokens=None)
        try:
            episode, findings = replace(self.checker, limits=limits, with_fixes=False).read(record)
        except Exception:  # the checker reports it
            return None
        return None if self.checker.shown(findings) else episode


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


def _strings(values: list[Any]) -> str:
    """Returns all strings in JSON values, keys too, a line each."""
    found: list[str] = []
    while values:
        found += [v for v in values if v.__class__ is str]
        nested: list[Iterable[Any]] = [v for v in values if v.__class__ is list]
        for item in [v for v in values if v.__class__ is dict]:
            found += item
            nested.append(item.values())
        values = list(chain.from_iterable(nested))
    return "\n".join(found)
