"""Holds what is compared of each record, in arrays, and finds which records are alike.

A record takes 105 bytes, and 24 more for each of its answers. The comparison sorts the arrays, one
at a time; which record is named as the first depends on the order of the records and nothing else.
"""

from array import array
from typing import Any, NamedTuple

import numpy as np

from mypt_lint.dataset.fingerprints import Fingerprint
from mypt_lint.dataset.passages import SIGNATURE, first_near

MOST = 1 << 24  # records that are compared
_CODES = ("MYP601", "MYP610", "MYP612")  # of what is equal in two records, by column


class Relation(NamedTuple):
    """What a record is to one before it: the rule, the number of that one, and the answer of the
    record that it is about.
    """

    code: str
    other: int
    answer: int = 0


class Records:
    """The digests of records, in order; `flags` says which have findings of their own."""

    def __init__(self) -> None:
        self._digests, self._answers = array("Q"), array("Q")
        self._signatures, self.flags = bytearray(), bytearray()

    def __len__(self) -> int:
        return len(self.flags)

    def add(self, place: int, digests: Fingerprint, final: int, flag: bool) -> None:
        """Adds a record; `final` is the digest of its last answer, 0 for none."""
        for answer in digests.answers:
            self._answers.extend((answer.context, answer.digest, len(self)))
        self._digests.extend((digests.everything, digests.toolless, digests.plain, place, final))
        self.flags.append(flag)

    def sign(self, signatures: Any) -> None:
        """Adds the signatures of the records that were added since it was last called."""
        self._signatures += signatures.tobytes()

    @property
    def digests(self) -> Any:
        """Returns the arrays of digests of all, without tools, and of plain texts, of places, and
        of final answers.
        """
        return np.frombuffer(self._digests, np.uint64).reshape(-1, 5).T

    @property
    def answers(self) -> Any:
        """Returns the arrays of digests of contexts and answers, and of numbers of records."""
        return np.frombuffer(self._answers, np.uint64).reshape(-1, 3).T

    def relations(self) -> dict[int, Relation]:
        """Returns what each record is to one before it, by its number."""
        out: dict[int, Relation] = {}
        for code, column in zip(_CODES, self.digests, strict=False):
            _relate(out, code, _first_equal(column))
        contexts, answers, owners = self.answers
        first = _first_equal(contexts)
        for at in np.flatnonzero(answers != answers[first]).tolist():
            order = at - int(np.searchsorted(owners, owners[at]))
            out.setdefault(int(owners[at]), Relation("MYP602", int(owners[first[at]]), order))
        signed = np.frombuffer(self._signatures, np.uint8).reshape(-1, SIGNATURE)
        _relate(out, "MYP613", first_near(signed))
        return out


def _relate(relations: dict[int, Relation], code: str, first: Any) -> None:
    for number in np.flatnonzero(first < np.arange(len(first))).tolist():
        relations.setdefault(number, Relation(code, int(first[number])))


def _first_equal(keys: Any) -> Any:
    """Returns the number of the first key that is equal, for each key."""
    order = np.argsort(keys, kind="stable")
    new = np.ones(len(order), bool)
    new[1:] = keys[order[1:]] != keys[order[:-1]]
    out = np.zeros(len(order), np.int64)
    out[order] = order[new][np.cumsum(new) - 1]
    return out
