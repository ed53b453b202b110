"""Holds counts of what records hold, whether they have faults or not, and makes facts of them."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

_MOST = 1 << 24  # lines that are compared
_BINS = 24  # of a histogram, at most
_SHARES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_WIDTHS = [factor * 10**power for power in range(18) for factor in (1, 2, 5)]


@dataclass(slots=True)
class Profile:
    """Counts of records, of which one in `every` was read.

    `counts` has "messages" and "characters" by role, "turns" and "lengths" (tokens) by size, and in
    "all" the records, those "unread" without a conversation, the tokens, those "counted" by a
    vocabulary, and those of them that are "trained". `digests` are of lines, of the first ones only
    if there are very many.
    """

    every: int = 1
    counts: defaultdict[str, Counter[Any]] = field(default_factory=lambda: defaultdict(Counter))
    digests: array[int] = field(default_factory=lambda: array("Q"))

    def add(self, other: Profile) -> None:
        """Adds the counts of another part of the data."""
        self.every = max(self.every, other.every)
        for name, counter in other.counts.items():
            self.counts[name].update(counter)
        self.digests += other.digests[: max(0, _MOST - len(self.digests))]

    def facts(self) -> dict[str, Any]:
        """Returns what to show, as JSON values; numbers of a sample are scaled to all records."""
        counts, read = self.counts, self.counts["all"]["records"]
        scale = len(self.digests) / read if self.every > 1 and read else 1
        names = ("records", "unread", "tokens", "counted", "trained")
        out: dict[str, Any] = {name: round(counts["all"][name] * scale) for name in names}
        out["exact"] = self.every == 1 and out["counted"] == out["tokens"]
        out["share"] = out["trained"] / out["counted"] if out["counted"] else None
        out["sample"] = read if self.every > 1 else 0
        parts = 1 + (len(self.digests) >> 21)  # a set of all would take gigabytes
        sets = ({d for d in self.digests if d % parts == part} for part in range(parts))
        out["repeated"] = len(self.digests) - sum(map(len, sets))
        out["roles"] = [
            [role, round(n * scale), round(counts["characters"][role] * scale)]
            for role, n in sorted(counts["messages"].items(), key=lambda item: (-item[1], item[0]))
        ]
        sizes = {name: distribution(counts[name]) for name in ("lengths", "turns") if counts[name]}
        return out | sizes


def distribution(counts: Counter[int]) -> dict[str, Any]:
    """Returns the most, quantiles by share, and the bins of a histogram: (first, last, count).

    Bins have one width, a round number; the last one takes the few that are much larger.
    """
    values = sorted(counts)
    below = list(accumulate(counts[value] for value in values))

    def quantile(share: float) -> int:
        return next(v for v, n in zip(values, below, strict=True) if n >= share * below[-1])

    low, high, most = values[0], quantile(0.98), values[-1]
    high = most if most - low <= 1.5 * (high - low) else high
    width = next(width for width in _WIDTHS if high - low < _BINS * width)
    first, last = low // width, high // width
    bins = Counter(dict.fromkeys(range(first, last + 1), 0))
    for value in values:
        bins[min(value // width, last)] += counts[value]
    rows = [[n * width, (n + 1) * width - 1, count] for n, count in bins.items()]
    rows[-1][1] = max(rows[-1][1], most)
    quantiles = {f"{share:.0%}": quantile(share) for share in _SHARES}
    return {"most": most, "quantiles": quantiles, "bins": rows}
