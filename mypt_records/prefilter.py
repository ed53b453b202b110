"""Tells in one pass in which of many texts a check may find something.

A check of texts registers a prefilter: `needles`, strings of which one is in each text that has a
finding, and a function that returns whether a text may have one. The linter takes all other texts
for clean, so a needle that is missing is a finding that is missed.

Theory of operation. One automaton (Aho and Corasick's) finds all needles, letters in any case, in a
block of texts, which are joined, in one pass. The functions whose needles are in a text are asked
about it; those without needles are asked about every text.

>>> texts = ["Hi", "my key: sk-" + "q7Zt2LkR9vXp4MnW8bYc3HjF6sDg1QaE5"]
>>> import mypt_records.checks
>>> TextFilter(lambda code: code == "MYP367").doubtful(texts)
[1]
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from itertools import accumulate, product
from typing import Any, NamedTuple, TypeAlias

MayFind: TypeAlias = Callable[[str], bool]
# A string, bytes of UTF-8, or for each place the ASCII characters that may be there. "\0" is the
# beginning, and the end, of a text.
Needle: TypeAlias = str | bytes | tuple[str, ...]
_EDGE = b"\xff"  # in place of this "\0": no byte of UTF-8
_WIDTH = 4  # characters of a needle with choices that count
_BUILD = 1 << 16  # characters that take as long to check without the automaton as it to build
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
    if isinstance(needle, tuple):
        return [b for chars in product(*needle[:_WIDTH]) for b in _bytes("".join(chars))]
    data = needle.encode() if isinstance(needle, str) else needle
    return [data.replace(b"\0", _EDGE)]


@cache
def _compile(*prefilters: Prefilter) -> tuple[Any, list[int]]:
    """Returns the automaton of all needles, and the prefilters that have each, as bits.

    None without the package, of which some systems have no wheel.
    """
    try:
        from ahocorasick_rs import BytesAhoCorasick, Implementation
    except ImportError:
        return None, []
    # "\0" is no edge here; a capital I with a dot, and the sign of Kelvin, are small ASCII letters.
    bits = {char.encode(): (1 << len(prefilters)) - 1 for char in "\u0130\u212a\0"}
    for number, one in enumerate(prefilters):
        for needle in (n.lower() for given in (one.needles or tuple)() for n in _bytes(given)):
            bits[needle] = bits.get(needle, 0) | 1 << number
    return BytesAhoCorasick(bits, implementation=Implementation.DFA), [*bits.values()]


class TextBytes:
    """Texts as UTF-8 in lower case, each between two edges; `ends` are the second ones."""

    def __init__(self, texts: Sequence[str]) -> None:
        try:
            encoded = [*map(str.encode, texts)]
        except UnicodeEncodeError:
            encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        self.data = _EDGE.join([b"", *encoded, b""]).lower()
        self.ends = [*accumulate([len(text) + 1 for text in encoded])]


class TextFilter:
    """Finds doubtful texts for the rules that `selects` names."""

    def __init__(self, selects: Callable[[str], bool]) -> None:
        rows = enumerate(PREFILTERS)
        self.prefilters = {i: p for i, p in rows if not p.codes or any(map(selects, p.codes))}
        self.bits = sum(1 << i for i in self.prefilters)

    @cached_property
    def _compiled(self) -> tuple[Any, list[int]]:
        return _compile(*PREFILTERS)  # of all, which takes less memory than one for each filter

    def doubtful(self, texts: Sequence[str], joined: TextBytes | None = None) -> list[int]:
        """Returns the numbers of the texts, here also joined, in which something may be found."""
        places = self._scan(texts, joined)
        of_every_text = [p for p in self.prefilters.values() if places is None or not p.needles]
        doubtful = set[int]()
        for i, found in (places or {}).items():
            text, bits = texts[i], found & self.bits
            while bits:
                number = bits.bit_length() - 1
                one, bits = self.prefilters[number], bits ^ 1 << number
                if len(text) >= one.least and one.may_find(text):
                    doubtful.add(i)
                    break
        for _, _, least, may_find in of_every_text:
            doubtful.update([i for i, t in enumerate(texts) if len(t) >= least and may_find(t)])
        return sorted(doubtful)

    def by_code(self, texts: Sequence[str]) -> dict[str, set[int]]:
        """Returns the numbers of the texts in which the rule of each code may find something."""
        places, numbers = self._scan(texts), dict[str, set[int]]()
        for bit, one in self.prefilters.items():
            every = places is None or not one.needles
            in_doubt = [i for i, bits in (places or {}).items() if bits >> bit & 1]
            for code in one.codes:
                numbers.setdefault(code, set()).update(range(len(texts)) if every else in_doubt)
        return numbers

    def _scan(self, texts: Sequence[str], joined: TextBytes | None = None) -> dict[int, int] | None:
        """Returns `_places`; None if it does not pay, or if all functions are to be asked."""
        global _scanned  # noqa: PLW0603
        if _scanned < _BUILD:
            _scanned += sum(map(len, texts))
            return None
        return self._places(joined or TextBytes(texts)) if self._compiled[0] else None

    def _places(self, texts: TextBytes) -> dict[int, int]:
        """Returns the prefilters of the needles in texts, as bits, by the numbers of the texts."""
        automaton, bits = self._compiled
        places: dict[int, int] = {}
        for needle, start, _ in automaton.find_matches_as_indexes(texts.data, overlapping=True):
            i = bisect_right(texts.ends, start)
            places[i] = places.get(i, 0) | bits[needle]
        return places


@cache
def all_prefilters() -> TextFilter:
    """Returns the filter of all rules, once all checks are imported."""
    return TextFilter(lambda _: True)
