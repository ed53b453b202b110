"""Counts what records hold, whether they have faults or not: roles, turns, tokens, duplicates.

A summary shows it. Much data is sampled: a record is read or not by its own bytes, so the counts
are the same for any number of processes. Equal lines are counted in all of the data.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field

_MOST = 1 << 24  # lines that are compared


@dataclass(slots=True)
class Profile:
    """Counts of the records that were read, which are one in `every` of all.

    `unread` of them hold no conversation. `messages` and `characters` are by role, `turns` and
    `lengths` (in tokens) by size. Of all `tokens`, a vocabulary has `counted` some, and the loss
    mask says that `trained` of these are trained; the others are estimated by their bytes.
    `digests` are of lines, of the first ones if there are very many.
    """

    every: int = 1
    records: int = 0
    unread: int = 0
    messages: Counter[str] = field(default_factory=Counter)
    characters: Counter[str] = field(default_factory=Counter)
    turns: Counter[int] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)
    tokens: int = 0
    counted: int = 0
    trained: int = 0
    digests: array[int] = field(default_factory=lambda: array("Q"))

    def add(self, other: Profile) -> None:
        """Adds the counts of another part of the data."""
        self.every = max(self.every, other.every)
        for name in ("records", "unread", "messages", "characters", "turns", "lengths", "tokens",
                     "counted", "trained"):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.digests += other.digests[: max(0, _MOST - len(self.digests))]

    @property
    def repeated(self) -> int:
        """Returns how many lines are equal to one before them."""
        import numpy as np

        return len(self.digests) - len(np.unique(np.frombuffer(self.digests, np.uint64)))
