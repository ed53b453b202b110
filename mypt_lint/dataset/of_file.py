"""Finds what the records of a file are only together: answers, labels, lengths and keys.

One counter a file; nothing of a record is kept.
"""

import json
from collections.abc import Iterable, Iterator
from math import log2
from typing import Any

import numpy as np

from mypt_records.chat import Chat, Message
from mypt_records.names import OPT_OUT
from mypt_spec.findings import Finding

_MANY = 50  # the least number of answers that are checked for variety
_DISTINCT = 0.5  # the least share of them that must differ
_PAIRS = 100  # the least number of pairs, or of answers with either label
_LONGER = 0.8  # the share of pairs in which the better answer is the longer one
_RARE = 0.1  # the share of the rarer label
_BINS = 8  # bins of lengths from one power of two to the next
_COMMON = 0.95  # the share of records that have a key
_SYSTEM = "a system prompt"
_KEY_SETS = 1 << 12  # sets of keys; with more, keys are data


class FileCounts:
    """Counts over the records of one file."""

    def __init__(self) -> None:
        self.last_row = 0
        self._longer = self._shorter = 0
        self._lengths = np.zeros((2, 64 * _BINS), np.int64)  # of bad and good answers
        self._key_sets: dict[tuple[str, ...], list[int]] = {}  # count, first row

    def add(self, row: int, record: Any, unit: Any) -> None:
        self.last_row = row
        if isinstance(record, dict) and len(self._key_sets) < _KEY_SETS:
            prompt = [_SYSTEM] if any(m.role == "system" for m in unit.messages) else []
            keys = (*map(json.dumps, record), *prompt)
            self._key_sets.setdefault(keys, [0, row])[0] += 1
        if not isinstance(unit, Chat):
            return
        if unit.rejected:
            better, worse = _length(unit.messages[unit.shared :]), _length(unit.rejected)
            self._longer += better > worse
            self._shorter += better < worse
        elif unit.label is not None and isinstance(unit.label.value, bool):
            size = _length(m for m in unit.messages[unit.last_question + 1 :])
            self._lengths[int(unit.label.value), int(log2(size + 1) * _BINS)] += 1

    def findings(self, finals: Any) -> Iterator[Finding]:
        """Yields the findings of the file; `finals` are the digests of its last answers."""
        finals = finals[finals != 0]
        if len(finals) >= _MANY and (differ := len(np.unique(finals))) < _DISTINCT * len(finals):
            share = f"{differ} of {len(finals)} final answers differ ({differ / len(finals):.0%})"
            hint = "look at the answers that come most often; vary them, or drop some"
            yield Finding("MYP607", share, help=hint)
        yield from self._biased()
        yield from self._missing()

    def _biased(self) -> Iterator[Finding]:
        pairs = self._longer + self._shorter
        advice = "balance the lengths, or use a loss that is normalised by length"
        if pairs >= _PAIRS and self._longer >= _LONGER * pairs:
            share = f"{self._longer / pairs:.0%} of {pairs} pairs"
            yield Finding("MYP617", f"the chosen answer is longer in {share}", help=advice)
        bad, good = self._lengths.sum(axis=1).tolist()
        if min(bad, good) >= _PAIRS:
            below = np.cumsum(self._lengths[0]) - self._lengths[0] / 2
            chance = float(below @ self._lengths[1]) / (bad * good)
            if chance >= _LONGER:
                message = f"a good answer is longer than a bad one in {chance:.0%} of all pairs"
                yield Finding("MYP617", message, help=advice)
        rare, total = min(bad, good), bad + good
        if total >= _PAIRS and 0 < rare < _RARE * total:
            message = f"{good} labels are true and {bad} are false"
            hint = "weigh them in the trainer (desirable_weight, undesirable_weight in TRL)"
            yield Finding("MYP618", message, help=hint)

    def _missing(self) -> Iterator[Finding]:
        if len(self._key_sets) >= _KEY_SETS:
            return
        total = sum(count for count, _ in self._key_sets.values())
        for key in sorted({key for keys in self._key_sets for key in keys} - {f'"{OPT_OUT}"'}):
            without = [entry for keys, entry in self._key_sets.items() if key not in keys]
            missing = sum(count for count, _ in without)
            if 0 < missing <= (1 - _COMMON) * total:
                message = (
                    f"{key} is in {total - missing} of {total} records; the first without it is "
                    f"record {min(row for _, row in without)}"
                )
                hint = "add it (a key without a value has null), or drop the records"
                yield Finding("MYP619", message, help=hint)


def _length(messages: Iterable[Message]) -> int:
    return sum(len(m.text) for m in messages if m.role == "assistant")
