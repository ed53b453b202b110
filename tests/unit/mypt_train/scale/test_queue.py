"""Units are tried three times and set aside, and a cluster is busy until the end."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from mypt_train.scale.launch.queue import attempts
from tests.support.cluster import Cluster, thousand


@pytest.mark.parametrize("seed", range(5))
def test_a_thousand_units_end_within_a_tenth_of_the_least_time(seed: int) -> None:
    cluster = thousand(seed, machines=32)

    ended = list(attempts(range(1000), cluster))

    aside = {a.unit for a in ended if a.last and a.error}
    assert cluster.broken <= aside
    assert sorted([*cluster.done, *aside]) == list(range(1000))  # each once
    assert all(Counter(cluster.tried)[unit] == 3 for unit in aside)
    assert len(cluster.tried) > 1000  # some failed and were tried again
    assert cluster.least() < cluster.clock < 1.1 * cluster.least()


def test_a_unit_that_always_fails_holds_up_no_other() -> None:
    cluster = Cluster([1.0], [1.0] * 4, 0, random.Random(0), frozenset([0]))
    ended = [(a.unit, a.number, bool(a.error), a.last) for a in attempts(range(4), cluster)]
    assert ended == [
        (0, 1, True, False),
        (1, 1, False, True), (2, 1, False, True), (3, 1, False, True),
        (0, 2, True, False), (0, 3, True, True),
    ]  # fmt: skip
