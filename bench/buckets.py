"""Finds the repeats among 10 million synthetic digests, in buckets and by one sort.

    python -m bench.buckets [--millions 10] [--bits 12] [--units 80]

One run, in processor time. A tenth of the digests is there before, and one of them a million times.
The result must be that of the whole array. Printed: what a bucket holds and its memory, the share
of both stages, and the time against one sort of the whole.
"""

from __future__ import annotations

import argparse
import statistics
import tracemalloc
from functools import partial
from time import process_time

import numpy as np
import numpy.typing as npt

from mypt_train.scale import buckets


def synthetic(count: int, seed: int = 0) -> npt.NDArray[np.uint64]:
    """Returns digests as two numbers each: (count, 2). A tenth and more is there before."""
    rng = np.random.Generator(np.random.PCG64(seed))
    out = rng.integers(0, 2**64, (count, 2), np.uint64)
    again = rng.integers(0, count, count // 10)
    out[again] = out[rng.integers(0, count, len(again))]
    out[rng.integers(0, count, count // 10)] = out[0]
    return out


def _read(body: bytes, start: int, length: int) -> bytes:
    return body[start : start + length]


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--millions", type=int, default=10)
    options.add_argument("--bits", type=int, default=buckets.BITS)
    options.add_argument("--units", type=int, default=80)
    options.add_argument("--together", type=int, default=8, help="units of a run")
    chosen = options.parse_args()
    digests = synthetic(chosen.millions * 1_000_000)
    as_bytes = np.frombuffer(digests.astype(">u8").tobytes(), "V16")

    begin = process_time()
    first = np.sort(_first(digests))
    whole = process_time() - begin
    expected = len(digests) - len(first)

    begin = process_time()
    size = -(-len(digests) // chosen.units)
    units = [buckets.entries(n, as_bytes[n * size : (n + 1) * size]) for n in range(chosen.units)]
    files, found = [], []
    for at in range(0, chosen.units, chosen.together):
        body, repeats = buckets.run(units[at : at + chosen.together], chosen.bits)
        files.append(body)
        found.append(repeats)
    first_stage = process_time() - begin
    del units

    reads = [partial(_read, body) for body in files]
    begin = process_time()
    found += [buckets.settle(reads, number) for number in range(1 << chosen.bits)]
    second_stage = process_time() - begin

    every = np.concatenate(found)
    places = every["unit"].astype("u8") * size + every["sample"]
    kept = np.ones(len(digests), bool)
    kept[places] = False
    assert len(places) == expected == len(np.unique(places))
    assert np.array_equal(np.flatnonzero(kept), first)

    held = [
        sum(len(buckets.part_of(read, n, buckets.ENTRY, "run")[0]) for read in reads)
        for n in range(1 << chosen.bits)
    ]
    tracemalloc.start()
    buckets.settle(reads, int(np.argmax(held)))
    peak = tracemalloc.get_traced_memory()[1]
    print(
        f"{len(digests):,} digests, {chosen.units} units, {len(files)} runs, "
        f"{1 << chosen.bits:,} buckets: {expected:,} repeats, the same as in one array"
    )
    print(
        f"a bucket: {statistics.mean(held):,.0f} entries, at most {max(held):,} "
        f"({max(held) / statistics.mean(held):.2f} of the mean); memory of that one "
        f"{peak / 24 / max(held):.1f} times its entries"
    )
    both = first_stage + second_stage
    print(
        f"stage 1 {first_stage / both:.0%}, stage 2 {second_stage / both:.0%} of the time; both "
        f"{whole / both:.2f} of the speed of one sort; {len(digests) / both / 1e6:.1f} million/s"
    )


def _first(digests: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Returns the index of each digest's first occurrence, by a sort that keeps the order."""
    order = np.lexsort((np.arange(len(digests)), digests[:, 1], digests[:, 0]))
    ordered = digests[order]
    new = np.ones(len(order), bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return order[new]


if __name__ == "__main__":
    main()
