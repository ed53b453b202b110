"""Holds what is compared of each record, in arrays, and finds which records are alike.

A record takes 105 bytes, and 20 more for each of its answers. The comparison sorts the arrays, one
at a time; which record is named as the first depends on the order of the records and nothing else.
"""

from array import array
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from mypt_lint.dataset.fingerprints import Fingerprint
from mypt_lint.dataset.passages import NEAR, SIGNATURE, likeness, near_pairs

MOST = 1 << 24  # records that are compared
_PAIRS = 1 << 16  # that are compared at once


class Relation(NamedTuple):
    """What a record is to one before it: the rule, the number of that one, and which answer of the
    record it is about. `share` is how much of two near duplicates is the same, about.
    """

    code: str
    other: int
    answer: int = 0
    share: float = 0


class Records:
    """The digests of records, in order."""

    def __init__(self) -> None:
        self.places, self.everything, self._toolless, self._plain, self.finals = (
            array("Q") for _ in range(5)
        )
        self.contexts, self._answers, self._owners = array("Q"), array("Q"), array("I")
        self._signatures = bytearray()
        self.flags = bytearray()

    def __len__(self) -> int:
        return len(self.places)

    def add(self, place: int, digests: Fingerprint, final: int, flag: bool) -> None:
        """Adds a record; `final` is the digest of its last answer, 0 for none."""
        number = len(self.places)
        self.places.append(place)
        self.everything.append(digests.everything)
        self._toolless.append(digests.everything if digests.toolless is None else digests.toolless)
        self._plain.append(digests.plain)
        self.finals.append(final)
        self.flags.append(flag)
        for answer in digests.answers:
            self.contexts.append(answer.context)
            self._answers.append(answer.digest)
            self._owners.append(number)

    def sign(self, signatures: Any) -> None:
        """Adds the signatures of the records that were added since it was last called."""
        self._signatures += signatures.tobytes()

    def relations(self) -> dict[int, Relation]:
        """Returns what each record is to one before it, by its number."""
        out: dict[int, Relation] = {}
        for code, column in (
            ("MYP601", self.everything), ("MYP610", self._toolless), ("MYP612", self._plain),
        ):  # fmt: skip
            first = _first_equal(np.frombuffer(column, np.uint64))
            for number in np.flatnonzero(first < np.arange(len(first))).tolist():
                out.setdefault(number, Relation(code, int(first[number])))
        owners, answers = np.frombuffer(self._owners, np.uint32), np.frombuffer(self._answers, "Q")
        first = _first_equal(np.frombuffer(self.contexts, np.uint64))
        for at in np.flatnonzero(answers != answers[first]).tolist():
            number = int(owners[at])
            order = at - int(np.searchsorted(owners, number))
            out.setdefault(number, Relation("MYP602", int(owners[first[at]]), order))
        for number, other, share in self._near():
            out.setdefault(number, Relation("MYP613", other, share=share))
        return out

    def _near(self) -> Iterable[tuple[int, int, float]]:
        """Yields (number, number of the first one that is nearly alike, share)."""
        signed = np.frombuffer(self._signatures, np.uint8).reshape(-1, SIGNATURE)
        best = np.arange(len(signed))
        for later, earlier in near_pairs(signed):
            for at in range(0, len(later), _PAIRS):
                some, others = later[at : at + _PAIRS], earlier[at : at + _PAIRS]
                alike = likeness(signed, some, others) >= NEAR
                np.minimum.at(best, some[alike], others[alike])
        for number in np.flatnonzero(best < np.arange(len(best))).tolist():
            share = float(likeness(signed, number, best[number]))
            yield number, int(best[number]), share


def _first_equal(keys: Any) -> Any:
    """Returns the number of the first key that is equal, for each key."""
    order = np.argsort(keys, kind="stable")
    new = np.ones(len(order), bool)
    new[1:] = keys[order[1:]] != keys[order[:-1]]
    out = np.empty(len(order), np.int64)
    out[order] = order[new][np.cumsum(new) - 1] if len(order) else 0
    return out


class DigestSet:
    """Digests of an array, and those that are added."""

    def __init__(self, digests: Any) -> None:
        self._sorted = np.unique(np.frombuffer(digests, np.uint64))
        self._more: set[int] = set()

    def add(self, digest: int) -> None:
        self._more.add(digest)

    def __contains__(self, digest: int) -> bool:
        at = int(np.searchsorted(self._sorted, np.uint64(digest)))
        return digest in self._more or (at < len(self._sorted) and self._sorted[at] == digest)
