"""Tells which texts are clean: not blank, no tag in them, nothing that is almost one.

Input: texts, each by itself. A text without the first character of any tag holds no tag, so most
texts cost one search for a character.
"""

import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain
from typing import Any

from mypt_cli.jsonl.line import has_separator
from mypt_lint.check.checker import Checker
from mypt_records.prefilter import TextBytes, TextFilter
from mypt_spec.adapters.base import Reader
from mypt_spec.automaton import Automaton
from mypt_spec.damage.cut_tags import fragment, fragment_spots, inner_tags, signs
from mypt_spec.damage.near_miss import literal_finders, sieve, spots
from mypt_spec.damage.untagged import is_body
from mypt_spec.episode import Place
from mypt_spec.findings import RULES
from mypt_spec.table import TokenTable
from mypt_spec.tokenizer.sentencepiece import rewrites

# What JSON has outside of its strings; a [ there is looked at.
_STRUCTURE = re.compile(r'[\s"\\{}\]:,0-9.+\-eEaflnrstu]')
# The first halves of characters of four bytes of which the first is F1 to F4.
_WIDE = ["d8c", "d8d", "d8e", "d8f", "d9", "da", "db"]


class CleanTexts:
    """The clean texts of one dialect; belongs to one thread.

    A text without any of `first` has no tag in it, no piece of one, and nothing that is almost one,
    nor anything else that is not clean.
    """

    def __init__(self, table: TokenTable, automaton: Automaton) -> None:
        self.table = table
        self.ends, self.begins = table.edges
        self.finders = literal_finders(table)
        self.inner_tags = inner_tags(table, automaton)
        self.cut_tags = tuple(t for t in self.inner_tags if t[0] == "<" and t[-1] == ">")
        tags = (*table.special, *(t.shown for t in table.plain_tags))
        first = {"<", *signs(self.inner_tags), *(t[:1] for t in (*tags, *map(str.lstrip, tags)))}
        edges = {text for text in (*self.ends, *self.begins) if not any(c in text for c in first)}
        edges |= {"{"} if table.untagged else set()
        first |= {""} if table.composed or table.spaced else set()
        self.first = ("",) if "" in first else tuple(sorted(first | edges))
        self.first_in_json = tuple(sorted(first))
        self.sieve = sieve(table, {*self.ends, *self.begins, *edges})
        self.sieve_of_json = sieve(table)
        self.is_sieved = not ("" in first or self.cut_tags)  # each text that is not clean is in it
        # JSON of clean strings holds no tag, nor anything like one.
        self.in_json = not any(map(_STRUCTURE.match, first)) and not any(
            re.search(r'["\\]', tag) for tag in tags
        )
        self.inline = Reader(table, []).inline
        self.spellings: dict[tuple[str, ...], frozenset[str]] = {}

    def are_clean(self, texts: list[str]) -> bool:
        """Returns whether no text is empty or blank, and none holds a tag or almost one.

        Nor does one spell a tag together with the tag beside it.
        """
        return all(texts) and not any(map(str.isspace, texts)) and not self.doubtful(texts)

    def doubtful(self, texts: Sequence[str], joined: TextBytes | None = None) -> list[int]:
        """Returns the numbers of texts that may not be clean; none of them is empty or blank.

        Those with a first character, or of `joined` texts those in the sieve, are searched at once.
        """
        if joined is None or not self.is_sieved:
            every = "\n".join(texts)
            firsts = [first for first in self.first if first in every]
            near = {i: t for first in firsts for i, t in enumerate(texts) if first in t}
        else:
            places = [m.start() for regex in self.sieve for m in regex.finditer(joined.data)]
            near = {i: texts[i] for i in (bisect_right(joined.ends, place) for place in places)}
        if not near:
            return []
        order, texts, numbers = [*near], [*near.values()], set[int]()
        every, ends = "\n".join(texts), [*accumulate([len(text) + 1 for text in texts])]
        for test, edges in ((str.endswith, self.ends), (str.startswith, self.begins)):
            if any(edge in every for edge in edges):
                numbers.update([i for i, text in enumerate(texts) if test(text, edges)])
        if self.table.untagged or rewrites(self.table, every):
            for i, text in enumerate(texts):
                if is_body(text, self.table) or rewrites(self.table, text):
                    numbers.add(i)
        if self.cut_tags:
            cut = {bisect_right(ends, at) for at in fragment_spots(every, self.cut_tags)}
            numbers.update(i for i in cut if fragment(texts[i], self.cut_tags) is not None)
        numbers.update(bisect_right(ends, at) for at in spots(every, self.finders, self.table))
        return sorted([order[number] for number in numbers])

    def are_clean_in(self, encoded: bytes | bytearray, value: Callable[[], Any]) -> bool:
        """Returns whether no string of a JSON value holds a tag or almost one.

        `encoded` is its JSON, in which a character has no escape that needs none; `value` makes the
        value.
        """
        if not any(first.encode() in encoded for first in self.first_in_json):
            return True
        text = encoded.decode()
        if rewrites(self.table, text):
            return False
        begun = any(regex.search(encoded.lower()) for regex in self.sieve_of_json)
        if self.in_json and not begun and fragment(text, self.inner_tags) is None:
            return True
        strings = [text for text in strings_of([value()]) if text and not text.isspace()]
        return self.are_clean([*strings, text])

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
        spellings = self.spellings.get(inline)
        if spellings is None:
            blocks = (self.table.openers, self.table.closers)
            tags = frozenset(tags[kind].bare for tags in blocks for kind in inline)
            spellings = tags if all(tag in self.table.special for tag in tags) else frozenset()
            self.spellings[inline] = spellings
        return spellings


class AnyTexts(CleanTexts):
    """The clean texts where there is no dialect: all, but for what a prefilter finds."""

    def __init__(self, table: TokenTable) -> None:
        self.table, self.in_json, self.sieve, self.is_sieved = table, True, [], True
        self.first = self.first_in_json = self.ends = self.begins = self.cut_tags = ()


def text_filter(checker: Checker) -> TextFilter:
    """Returns the filter of the rules that report something: hidden errors count, too."""
    import mypt_records.checks
    import mypt_records.written  # noqa: F401 which registers a prefilter, as the checks do

    return TextFilter(lambda code: checker.selects(code) or RULES[code].severity == "error")


def told_apart(lacks: bytes) -> Callable[[bytes], bool]:
    """Returns what tells whether JSON may have a line separator, or in UTF-8 one of some bytes."""
    used = [byte for byte in lacks if byte not in (0xC0, 0xC1) and byte < 0xF5]
    raw = [bytes([byte]) for byte in used if byte > 0x7E]
    codes = [f"00{byte:02x}" for byte in used if byte < 0x80] + _WIDE * any(b > 0xF0 for b in used)
    codes += [""] * any(0x7F < byte < 0xF1 for byte in used)
    escaped = re.compile(rf"\\u(?i:{'|'.join(codes)})".encode()).search if codes else has_separator
    return lambda data: any(b in data for b in raw) or has_separator(data) or bool(escaped(data))


def longest(checker: Checker) -> int:
    """Returns the length in bytes of the longest line that may be judged fast; -1 for none.

    Rules that are ignored count if they find errors: a hidden error may leave no episode (MYP906).
    """
    for code, rule in RULES.items():
        on = checker.selects(code) or rule.severity == "error"
        if on and rule.sees in ("text", "episode") and not rule.fast:
            return -1
    limit = checker.limits.max_tokens
    # `test_tokens_are_at_most_twice_the_bytes` holds this.
    return sys.maxsize if limit is None else limit // 2


def strings_of(values: list[Any]) -> list[str]:
    """Returns all strings in JSON values, keys too."""
    strings: list[str] = []
    while values:
        strings += [v for v in values if v.__class__ is str]
        nested: list[Iterable[Any]] = [v for v in values if v.__class__ is list]
        for item in [v for v in values if v.__class__ is dict]:
            strings += item
            nested.append(item.values())
        values = list(chain.from_iterable(nested))
    return strings
