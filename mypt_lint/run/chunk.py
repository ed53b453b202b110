"""Holds the outcome for a part of a source: findings, counts, and the keys of a baseline."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_lint.settings.baseline import Key, keys


@dataclass(slots=True)
class Chunk:
    """The outcome for a part of a source, in order.

    `position` is the number of bytes on disk read so far, for progress. `keys` are those of all
    findings, including known ones, which are not among `found`; only with a baseline.
    """

    found: list[Diagnostic] = field(default_factory=list)
    summary: Summary = field(default_factory=Summary)
    position: int = 0
    keys: set[Key] = field(default_factory=set)

    def add(self, items: list[Diagnostic], raw: bytes, known: Collection[Key] | None) -> bool:
        """Adds the findings of a line that the baseline does not know, and counts the others.

        `known` are the keys of the baseline, None without one. Returns whether any is added.
        """
        before = len(self.found)
        if known is None or not items:
            self.found += items
            return bool(items)
        for item, key in zip(items, keys(items, raw), strict=True):
            if key is not None:
                self.keys.add(key)
            if key in known:
                self.summary.known += 1
            else:
                self.found.append(item)
        return len(self.found) > before

    def counted(self, faulty: int) -> Chunk:
        """Counts its findings; of its units, `faulty` have some. Returns itself."""
        self.summary.faulty = faulty
        self.summary.clean = self.summary.units - faulty
        self.summary.tally(self.found)
        return self
