"""Tells in one pass in which of many texts a check may find something.

A check of texts registers a prefilter: `needles`, strings of which one is in each text that has a
finding, and a function that returns whether a text may have one. The linter takes all other texts
for clean, so a needle that is missing is a finding that is missed.

Theory of operation. A needle counts with its first four bytes, letters in any case. Four tables map
each byte to the groups of needles that have it in this place; `bytes.translate` applies a table to
a block of texts at the speed of memory, and where all four name one group, a needle may begin.
These few places are looked up exactly, and the functions whose needles are there are asked about
the text. The needles "sk-" and "ghp_" cost no more than "sk-" alone, and "task" is no match.

>>> texts = ["Hi", "my key: sk-" + "q7Zt2LkR9vXp4MnW8bYc3HjF6sDg1QaE5"]
>>> import mypt_records.checks
>>> TextFilter(lambda code: code == "MYP367").doubtful(texts)
[1]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import product
from typing import Any, NamedTuple, TypeAlias

MayFind: TypeAlias = Callable[[str], bool]
# A string, bytes of UTF-8, or for each place the ASCII characters that may be there. "\0" is the
# beginning, and the end, of a text.
Needle: TypeAlias = str | bytes | tuple[str, ...]
WIDTH = 4  # bytes of a needle that count
_LOWER = bytes(range(256)).lower()
_LOAD = 1 << 18  # characters that take as long to check without numpy as numpy to load
_scanned = 0  # of these


class Prefilter(NamedTuple):
    """`may_find` is asked about texts of `least` characters or more with one of the needles.

    Without needles, it is asked about all of these. It is needed if one of `codes` is reported,
    or if there are none.
    """

    codes: tuple[str, ...]
    needles: Callable[[], Iterable[Needle]] | None
    least: int
    may_find: MayFind


PREFILTERS: list[Prefilter] = []


def prefilter(
    *codes: str, needles: Callable[[], Iterable[Needle]] | None = None, least: int = 0
) -> Callable[[MayFind], MayFind]:
    """Registers a function of a text: whether a rule of these codes may find something in it.

    `needles` is called when a file is so long that it pays.
    """

    def register(may_find: MayFind) -> MayFind:
        PREFILTERS.append(Prefilter(codes, needles, least, may_find))
        return may_find

    return register


def _bytes(needle: Needle) -> list[bytes]:
    """Returns what a needle stands for, as bytes."""
    if isinstance(needle, bytes):
        return [needle]
    if isinstance(needle, str):
        return [needle.encode()]
    return ["".join(chars).encode() for chars in product(*needle[:WIDTH])]


def _group(first: int) -> int:
    """Returns the group of needles by their first byte: 0 to 7 for letters, 8 to 15 for others.

    A place is looked up where each byte is in some needle of one group, so these are alike.
    """
    char = chr(first).lower()
    if char.isascii() and char.isalpha():
        return (ord(char) - ord("a")) * 8 // 26
    if first < 0x20 and first not in b"\t\n\r":
        return 13 if first else 12
    if char in "[\\&":  # rare, as beginnings of texts are, of which this is the group, too
        return 12
    if first < 0x80:
        return 8 if char <= " " else 9 if char == "<" else 10 if char.isdigit() else 11
    return 13 + (first > 0xC2) + (first > 0xC3)


@cache
def _compiled(*prefilters: Prefilter) -> tuple[tuple[bytes, ...], list[tuple[Any, list[int]]]]:
    """Returns the tables, four of letters and four of others; and of each length the needles.

    These are numbers, sorted; with them are the prefilters that have each, as bits.
    """
    import numpy as np

    bits: list[dict[int, int]] = [{} for _ in range(WIDTH)]
    tables = [bytearray(256) for _ in range(2 * WIDTH)]
    for number, one in enumerate(prefilters):
        needles = {n[:WIDTH].lower() for given in (one.needles or tuple)() for n in _bytes(given)}
        for needle in needles:
            key, same = int.from_bytes(needle, "big"), bits[len(needle) - 1]
            same[key] = same.get(key, 0) | 1 << number
            bank, group = divmod(_group(needle[0]), 8)
            for place, table in enumerate(tables[bank * WIDTH :][:WIDTH]):
                chars = needle[place : place + 1]
                for char in {*chars, *chars.upper()} if chars else range(256):
                    table[char] |= 1 << group
    exact = list[tuple[Any, list[int]]]()
    for of_size in bits:
        keys = sorted(of_size)
        # The last key is larger than all others, so that each search ends at one.
        last = np.array([*keys, 0xFFFFFFFF], np.uint32)
        exact.append((last, [*map(of_size.__getitem__, keys), 0]))
    return tuple(map(bytes, tables)), exact


class TextFilter:
    """Finds doubtful texts for the rules that `selects` names."""

    def __init__(self, selects: Callable[[str], bool]) -> None:
        self.prefilters = [p for p in PREFILTERS if not p.codes or any(map(selects, p.codes))]

    def doubtful(self, texts: Sequence[str]) -> list[int]:
        """Returns the numbers of the texts in which something may be found."""
        global _scanned  # noqa: PLW0603
        asked = self.prefilters
        if "numpy" in sys.modules or _scanned > _LOAD:
            places = self._places(texts)
            asked = [p for p in asked if not p.needles]
        else:
            _scanned += sum(map(len, texts))
            places = {}
        doubtful = set[int]()
        for i, bits in places.items():
            text = texts[i]
            for number, one in enumerate(self.prefilters):
                if bits >> number & 1 and len(text) >= one.least and one.may_find(text):
                    doubtful.add(i)
                    break
        for _, _, least, may_find in asked:
            doubtful.update([i for i, t in enumerate(texts) if len(t) >= least and may_find(t)])
        return sorted(doubtful)

    def _places(self, texts: Sequence[str]) -> dict[int, int]:
        """Returns the prefilters of the needles in texts, as bits, by the numbers of the texts."""
        import numpy as np

        tables, exact = _compiled(*self.prefilters)
        data = b"\0%b\0\0\0\0" % "\0".join(texts).encode("utf-8", "surrogatepass")
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 0)
        if len(ends) != len(texts) + WIDTH:  # a text has such a character
            return dict.fromkeys(range(len(texts)), -1)
        groups: list[Any] = [0xFF, 0xFF]  # of letters, and of others
        for number, table in enumerate(tables):
            at = number % WIDTH
            here = np.frombuffer(data.translate(table), np.uint8)[at : len(data) - WIDTH + at]
            groups[number // WIDTH] = groups[number // WIDTH] & here
        spots = np.flatnonzero(groups[0] | groups[1])
        if not len(spots):
            return {}
        chars, lower = np.frombuffer(data, np.uint8), np.frombuffer(_LOWER, np.uint8)
        found: dict[int, int] = {}
        # The bytes from each spot on as one number: of the needles, those of the same length.
        numbers: Any = np.zeros(len(spots), np.uint32)
        for size, (needles, bits) in enumerate(exact):
            numbers = numbers << 8 | lower[chars[spots + size]]
            at = np.searchsorted(needles, numbers)
            same = np.flatnonzero(needles[at] == numbers)
            texts_of = np.searchsorted(ends, spots[same], side="right") - 1
            for i, place in zip(texts_of.tolist(), at[same].tolist(), strict=True):
                found[i] = found.get(i, 0) | bits[place]
        return found
