"""Simulates a thousand units on clusters of several sizes, with a fake clock.

    python -m bench.schedule [--runs 30]

Printed: for numbers of slots, the time of the whole against the least possible, the median of all
runs and the worst: with one queue, and with fixed shares as `--launcher shell` prints them. A tenth
of the machines has two thirds of the speed.
"""

from __future__ import annotations

import argparse
import statistics

from mypt_train.scale.launch.queue import attempts
from tests.support.cluster import Cluster, thousand


def queue(cluster: Cluster) -> float:
    """Returns the time of one queue for all slots, in parts of the least time."""
    for _ in attempts(range(len(cluster.work)), cluster):
        pass
    return cluster.clock / cluster.least()


def shares(cluster: Cluster) -> float:
    """Returns the time of the slot that ends last, if each has a fixed share of the units."""
    units, slowest = len(cluster.work), 0.0
    for slot, speed in enumerate(cluster.speeds):
        alone = Cluster([speed], cluster.work, cluster.failing, cluster.rng, cluster.broken)
        mine = range(units * slot // cluster.slots, units * (slot + 1) // cluster.slots)
        for _ in attempts(mine, alone):
            pass
        slowest = max(slowest, alone.clock)
    return slowest / cluster.least()


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--runs", type=int, default=30)
    chosen = options.parse_args()
    print("slots  units a slot  failing       one queue    fixed shares")
    for slots in (8, 16, 32, 64, 100):
        for failing in (0.02, 0.1):
            ratios = [
                [way(thousand(seed, slots, failing=failing)) for seed in range(chosen.runs)]
                for way in (queue, shares)
            ]
            shown = "    ".join(f"{statistics.median(r):.2f} ({max(r):.2f})" for r in ratios)
            print(f"{slots:5}  {1000 / slots:12.0f}  {failing:7.0%}     {shown}")


if __name__ == "__main__":
    main()
