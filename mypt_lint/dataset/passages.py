"""Hashes the words of texts, to compare texts that are nearly alike or share passages.

A text becomes one hash for each word, whatever its case, white space and punctuation; an ideograph
is a word. Hashes of n words in a row are its passages. From them come signatures (MinHash), whose
equal share estimates how much of two texts is the same, and the index of texts that must not be
trained on. Many texts are hashed at once, which is several times as fast, and the result for each
depends on that text alone: no seed, no order, no machine.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

_ROWS, _BANDS = 6, 10
_COLUMNS = _ROWS * _BANDS
SIGNATURE = _COLUMNS + 4  # bytes: the last ones identify the numbers in a text
_NEAR = 0.85  # the least share of equal bytes of the signatures of near duplicates
SKETCH = 8  # passages that are kept of a text of the index
_LENGTH = 8  # words of a passage of the index
_SHARE = 0.6  # of the kept passages of a text, in one record
_FEWEST = 3  # passages of a text of the index: ten words
_SHINGLE = 3  # words
_LEAST = 20  # words of a text whose near duplicates are looked for
_MOST = 1 << 20  # characters of a text: more are not read
_AT_ONCE, _PAIRS = 256, 1 << 16  # texts and pairs that are compared at once
_SPACE = 32
_LETTERS = bytes(
    ord(chr(i).lower()) if chr(i).isalnum() else _SPACE for i in range(128)
) + bytes(range(128, 256))  # fmt: skip
_PUNCTUATION = re.compile(
    "[\u00a0-\u00bf\u2000-\u206f\u3000-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]"
)
_IDEOGRAPH = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_PRIME = 0x9E3779B97F4A7C15


def _mixed(x: Any) -> Any:
    """Returns 64-bit numbers with their bits mixed (splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


_VALUES = _mixed(np.arange(1, 257, dtype=np.uint64) * np.uint64(_PRIME))
_ODD = _VALUES[:_LENGTH] | np.uint64(1)
_SEEDS = (_mixed(_VALUES[: 2 * _COLUMNS]) >> np.uint64(32)).astype(np.uint32)
_VALUES[_SPACE] = 0


@lru_cache(maxsize=24)
def _powers(size: int) -> tuple[Any, Any]:
    """Returns the powers of a number modulo 2**64, and those of its inverse."""
    prime, inverse = (
        np.multiply.accumulate(np.full(size, base, np.uint64))
        for base in (_PRIME, pow(_PRIME, -1, 1 << 64))
    )
    return prime, inverse


class Hashes(NamedTuple):
    """Hashes (uint64) of the words or passages of texts; text i has `bounds[i]:bounds[i + 1]`.

    `are_numbers` says which words begin with a digit.
    """

    values: Any
    bounds: Any
    are_numbers: Any = None

    @property
    def sizes(self) -> Any:
        return np.diff(self.bounds)


def words(texts: Sequence[str]) -> Hashes:
    """Returns the hashes of the words of texts that `fingerprints.plain` has made."""
    parts = []
    for text in texts:
        short = text[:_MOST]
        if not short.isascii():
            short = _IDEOGRAPH.sub(r" \g<0> ", _PUNCTUATION.sub(" ", short))
        parts.append(b" %b " % short.encode("utf-8", "surrogatepass"))
    data = b"".join(parts).translate(_LETTERS)
    letters = np.frombuffer(data, np.uint8)
    gaps = letters == _SPACE
    starts = np.flatnonzero(gaps[:-1] > gaps[1:]) + 1
    bounds = np.searchsorted(starts, np.cumsum([0, *map(len, parts)]))
    if not starts.size:
        return Hashes(np.empty(0, np.uint64), bounds, np.empty(0, bool))
    powers, inverses = _powers(1 << len(data).bit_length())
    sums = np.add.reduceat(_VALUES[letters] * powers[: len(data)], starts)
    are_numbers = letters[starts] - np.uint8(48) < 10
    return Hashes(_mixed(sums * inverses[starts]), bounds, are_numbers)


def passages(hashes: Hashes, length: int = _LENGTH) -> Hashes:
    """Returns the hashes of each `length` words in a row of a text."""
    count = max(0, len(hashes.values) - length + 1)
    values = np.zeros(count, np.uint64)
    for i in range(length if count else 0):
        values += hashes.values[i : i + count] * _ODD[i]
    ends = np.repeat(hashes.bounds[1:], hashes.sizes)[:count]
    values = _mixed(values[np.arange(length, length + count) <= ends])
    sizes = np.maximum(0, hashes.sizes - length + 1)
    return Hashes(values, np.concatenate([[0], np.cumsum(sizes)]))


def signatures(hashes: Hashes) -> Any:
    """Returns the signatures of texts, (texts, SIGNATURE) of uint8; zeros for short texts."""
    out = np.zeros((len(hashes.sizes), SIGNATURE), np.uint8)
    shingles = passages(hashes, _SHINGLE)
    long = hashes.sizes >= _LEAST
    if not long.any():
        return out
    values = _top(shingles.values[np.repeat(long, shingles.sizes)])
    starts = np.concatenate([[0], np.cumsum(shingles.sizes[long])[:-1]])
    room = np.empty_like(values)  # several times as fast as new arrays
    for column in range(_COLUMNS):
        np.bitwise_xor(values, _SEEDS[2 * column], out=room)
        np.multiply(room, _SEEDS[2 * column + 1] | np.uint32(1), out=room)
        least = np.minimum.reduceat(room, starts)
        out[long, column] = _mixed(least.astype(np.uint64)).astype(np.uint8)
    out[long, 0] |= 1  # so that it is not one of a short text
    of_text = np.repeat(np.arange(len(long), dtype=np.uint64), hashes.sizes)[hashes.are_numbers]
    numbers = np.unique(np.stack([of_text, hashes.values[hashes.are_numbers]]), axis=1)
    sums = np.zeros(len(long), np.uint64)
    np.add.at(sums, numbers[0].astype(np.int64), numbers[1])
    out[long, _COLUMNS:] = _top(sums)[long, None].view(np.uint8)
    return out


def _top(values: Any) -> Any:
    return (values >> np.uint64(32)).astype(np.uint32)


def sketches(texts: Sequence[str]) -> Any:
    """Returns the least hashes of passages of texts: (texts, SKETCH) of uint32, the rest zeros."""
    out = np.zeros((len(texts), SKETCH), np.uint32)
    for first in range(0, len(texts), _AT_ONCE):
        values, bounds, _ = passages(words(texts[first : first + _AT_ONCE]))
        for row, (start, end) in zip(out[first:], pairwise(bounds), strict=False):
            least = np.unique(_top(values[start:end]))[:SKETCH]
            row[: len(least)] = least
    return out


class Index:
    """Finds texts most of whose passages are in a text, by their sketches.

    Passages that several texts have do not count, but for equal texts: of those, the first counts.
    """

    def __init__(self, sketch: Any) -> None:
        distinct = np.unique(sketch, axis=0, return_index=True)[1]
        items, columns = np.nonzero(sketch[distinct])
        self._values, at, counts = np.unique(
            sketch[distinct][items, columns], return_index=True, return_counts=True
        )
        self._values, self._owners = self._values[counts == 1], distinct[items[at[counts == 1]]]
        self._sizes = np.bincount(self._owners, minlength=len(sketch))
        self._filter = np.zeros(1 << 20, bool)
        self._filter[self._values >> np.uint32(12)] = True

    def find(self, hashes: Hashes) -> dict[int, int]:
        """Returns the text of the index that a text holds most of, if there is one, by text."""
        values, bounds, _ = passages(hashes)
        grams = _top(values)
        hits = np.flatnonzero(self._filter[grams >> np.uint32(12)])
        at = np.searchsorted(self._values, grams[hits]) % max(1, len(self._values))
        is_equal = self._values[at] == grams[hits]
        texts = np.searchsorted(bounds, hits[is_equal], side="right") - 1
        pairs = np.unique(np.stack([texts, self._owners[at[is_equal]], at[is_equal]]), axis=1)
        (texts, items), counts = np.unique(pairs[:2], axis=1, return_counts=True)
        shares = counts / self._sizes[items]
        enough = (counts >= _FEWEST) & (shares >= _SHARE)
        best: dict[int, tuple[float, int]] = {}
        for text, item, share in zip(texts[enough], items[enough], shares[enough], strict=True):
            best[int(text)] = max(best.get(int(text), (0, 0)), (float(share), -int(item)))
        return {text: -item for text, (_, item) in best.items()}


def first_near(signed: Any) -> Any:
    """Returns the number of the first signature that is nearly the same, for each signature.

    A signature is compared with the first and the last one before it that have an equal band, so
    time and memory are linear, whatever the data. Numbers in the texts must be the same.
    """
    out, numbers = np.arange(len(signed)), np.flatnonzero(signed[:, 0])
    for band in range(_BANDS):
        keys = np.zeros(len(numbers), np.uint64)
        for column in range(band * _ROWS, (band + 1) * _ROWS):
            keys = keys << np.uint64(8) | signed[numbers, column].astype(np.uint64)
        order = np.argsort(keys, kind="stable")
        same = np.flatnonzero(keys[order][1:] == keys[order][:-1]) + 1
        first = np.arange(len(order))
        first[same] = 0
        first = np.maximum.accumulate(first)
        for at in range(0, len(same), _PAIRS):
            later = same[at : at + _PAIRS]
            for before in (first[later], later - 1):
                some, others = numbers[order[later]], numbers[order[before]]
                equal = signed[some] == signed[others]
                share = equal[:, :_COLUMNS].mean(axis=1) * equal[:, _COLUMNS:].all(axis=1)
                np.minimum.at(out, some[share >= _NEAR], others[share >= _NEAR])
    return out
