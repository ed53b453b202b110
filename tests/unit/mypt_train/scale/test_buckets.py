"""Repeated episodes are found by digests in prefix buckets, whatever the number of buckets."""

from __future__ import annotations

import random
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mypt_train.scale import buckets

# Units of digests, many of which are equal; some share their first half.
HALVES = [bytes([i] * 8) for i in (0, 1, 127, 128, 255)]
DIGESTS = st.sampled_from([first + second for first in HALVES for second in HALVES[:2]])
UNITS = st.lists(st.lists(DIGESTS, max_size=8), max_size=8)


def _entries(unit: int, digests: list[bytes]) -> buckets.Entries:
    return buckets.entries(unit, np.frombuffer(b"".join(digests), "V16"))


def _in_memory(body: bytes) -> buckets.Read:
    return lambda start, length: body[start : start + length]


def _repeats_one_by_one(units: list[list[bytes]]) -> set[tuple[int, int]]:
    """Returns what a set in plan order leaves out, as (unit, sample)."""
    seen: set[bytes] = set()
    out = set()
    for unit, digests in enumerate(units):
        for sample, digest in enumerate(digests):
            if digest in seen:
                out.add((unit, sample))
            seen.add(digest)
    return out


def _repeats_in_buckets(
    units: list[list[bytes]], runs: list[list[int]], bits: int
) -> list[tuple[int, int]]:
    """Does both stages; `runs` are the numbers of the units of each run, in any order."""
    places: list[buckets.Places] = []
    files: list[bytes] = []
    for run in runs:
        pieces = [_entries(unit, units[unit]) for unit in run]
        body, repeats = buckets.run(pieces, bits)
        files.append(body)
        places.append(repeats)
    reads = [_in_memory(body) for body in files]
    places += [buckets.settle(reads, bucket) for bucket in range(1 << bits)]
    return [(int(p["unit"]), int(p["sample"])) for piece in places for p in piece]


@given(UNITS, st.integers(0, 9), st.randoms(use_true_random=False))
def test_the_first_in_plan_order_stays_whatever_the_buckets_and_runs(
    units: list[list[bytes]], bits: int, rng: random.Random
) -> None:
    order = list(range(len(units)))
    rng.shuffle(order)
    cuts = list(accumulate(rng.randint(1, 3) for _ in order))
    runs = [order[a:b] for a, b in zip([0, *cuts], [*cuts, len(order)], strict=True) if order[a:b]]

    repeats = _repeats_in_buckets(units, runs, bits)

    assert sorted(repeats) == sorted(_repeats_one_by_one(units))  # each once


def test_a_bucket_is_read_by_its_range() -> None:
    rng = np.random.Generator(np.random.PCG64(0))
    digests = np.frombuffer(rng.bytes(16 * 4000), "V16")
    body, _ = buckets.run([buckets.entries(0, digests)], 2)
    reads: list[int] = []

    def read(start: int, length: int) -> bytes:
        reads.append(length)
        return body[start : start + length]

    assert len(buckets.settle([read], 1)) == 0
    assert 900 < sum(reads) / buckets.ENTRY.itemsize < 1100


def test_a_run_that_was_cut_or_is_none_is_refused() -> None:
    body, _ = buckets.run([_entries(0, [b"a" * 16, b"b" * 16])], 3)
    for broken in (b"", b"no run" * 30, body[:-1], body[:40]):
        with pytest.raises(ValueError, match="run of digests"):
            [buckets.settle([_in_memory(broken)], n) for n in range(8)]
