"""A cluster with a fake clock: machines of different speed, on which units fail at random."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field

from mypt_train.scale.launch.queue import Ended


@dataclass
class Cluster:
    """An engine for `mypt_train.scale.launch.queue` that runs nothing but a clock, in seconds.

    `speeds` are those of its slots, `work` the seconds of each unit at speed 1. An attempt fails
    with the probability `failing`, after a random part of its time; units in `broken` always fail.
    """

    speeds: list[float]
    work: list[float]
    failing: float
    rng: random.Random
    broken: frozenset[int] = frozenset()
    clock: float = 0.0
    done: list[int] = field(default_factory=list)
    tried: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._free = sorted(range(self.slots), key=lambda slot: self.speeds[slot])
        self._running: list[tuple[float, int, int, str]] = []

    @property
    def slots(self) -> int:
        return len(self.speeds)

    def start(self, unit: int) -> None:
        slot = self._free.pop()
        fails = unit in self.broken or self.rng.random() < self.failing
        spent = self.work[unit] / self.speeds[slot] * (self.rng.random() if fails else 1)
        self.tried.append(unit)
        heapq.heappush(
            self._running, (self.clock + spent, slot, unit, "the worker died" if fails else "")
        )

    def ended(self) -> Ended:
        self.clock, slot, unit, error = heapq.heappop(self._running)
        self._free.append(slot)
        if not error:
            self.done.append(unit)
        return Ended(unit, error=error)

    def least(self) -> float:
        """Returns seconds that no schedule falls below: all work at full speed, without failures."""
        work = [seconds for unit, seconds in enumerate(self.work) if unit not in self.broken]
        return max(sum(work) / sum(self.speeds), max(work) / max(self.speeds))


def thousand(seed: int, machines: int, *, failing: float = 0.02, slow: float = 0.1) -> Cluster:
    """Returns a cluster and a thousand units of about 200 seconds, drawn by a seed.

    Units differ by a tenth as objects of stores do, the last of each input is shorter. `slow` is
    the share of machines that have only two thirds of the speed. Two units always fail.
    """
    rng = random.Random(seed)
    work = [200 * rng.uniform(0.9, 1.1) * (rng.random() if rng.random() < 0.05 else 1)
            for _ in range(1000)]  # fmt: skip
    speeds = [2 / 3 if rng.random() < slow else rng.uniform(0.95, 1.05) for _ in range(machines)]
    broken = frozenset(rng.sample(range(1000), 2))
    return Cluster(speeds, work, failing, rng, broken)
