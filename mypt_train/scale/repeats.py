"""Leaves out repeated episodes across groups, in two stages over the store of the data set.

Input: a sealed plan with `dedup`. Stage 1, a task for each group, writes the digests of its units
as a run; stage 2, a task for each bucket, writes which samples repeat an earlier one, divided by
group (`buckets`). Packing a group then reads its part of all buckets. Within a group, repeats are
left out when it is packed. Of a plan with one group, that is all there is to do.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from mypt_cli.store import Store
from mypt_train.data.unit_files import UnitFile
from mypt_train.scale import buckets
from mypt_train.scale.planning import places
from mypt_train.scale.planning.plan import Plan
from mypt_train.scale.state import Sealed
from mypt_train.scale.unit.report import report_of

# The lines for which one more bucket is made: 24 bytes each, if none is repeated.
_LINES = 1 << 21
# The head of a unit file is read in pieces of so many bytes; its tokens are not wanted.
_PIECE = 128 << 10
_THREADS = 16


def needed(plan: Plan) -> bool:
    """Returns whether repeats have to be looked for across groups."""
    return plan.options.dedup and plan.groups > 1


def bits_of(sealed: Sealed) -> int:
    """Returns the number of bits of a digest that name its bucket."""
    return min(16, (sealed.lines // _LINES).bit_length())


def write_digests(plan: Plan, sealed: Sealed, group: int) -> None:
    """Writes the digests of a group as a run. Raises StoreError."""
    store = plan.store()
    units = [unit for unit in plan.of_group(group) if unit not in sealed.missing]
    with ThreadPoolExecutor(_THREADS) as threads:
        body, _ = buckets.run(threads.map(partial(_entries, store), units), bits_of(sealed))
    store.put(places.digests(group), body)


def settle(plan: Plan, sealed: Sealed, bucket: int) -> None:
    """Writes which samples of a bucket repeat an earlier one. Raises StoreError."""
    store = plan.store()
    reads = [_reader(store, places.digests(number)) for number in range(plan.groups)]
    rows = buckets.settle(reads, bucket)
    groups = np.zeros(len(plan.units), np.int64)
    for number in range(plan.groups):
        groups[plan.of_group(number)] = number
    store.put(places.repeats(bucket), buckets.divided(rows, groups[rows["unit"]], plan.groups))


def repeats_of(plan: Plan, sealed: Sealed, group: int) -> dict[int, frozenset[int]]:
    """Returns for each unit of a group the samples that repeat one of a unit anywhere before.

    What is repeated within the group may be missing. Raises StoreError.
    """
    store = plan.store()

    def part(bucket: int) -> buckets.Places:
        read = _reader(store, places.repeats(bucket))
        return buckets.part_of(read, group, buckets.PLACE, "file of repeats")[0]

    with ThreadPoolExecutor(_THREADS) as threads:
        every = np.concatenate(list(threads.map(part, range(1 << bits_of(sealed)))))
    every.sort()
    units, starts = np.unique(every["unit"], return_index=True)
    samples = np.split(every["sample"], starts[1:])
    return {int(unit): frozenset(some.tolist()) for unit, some in zip(units, samples, strict=False)}


def _entries(store: Store, unit: int) -> buckets.Entries:
    """Returns the digests of a unit; its samples count through its parts."""
    out, before = [np.empty(0, buckets.ENTRY)], 0
    parts = report_of(store, unit).parts
    with store.open(places.unit(unit), piece=_PIECE, ahead=False) as data:
        for part in parts:
            data.seek(part.at)
            digests = UnitFile.read(data).digests
            out.append(buckets.entries(unit, digests, np.arange(before, before + len(digests))))
            before += part.samples
    return np.concatenate(out)


def _reader(store: Store, key: str) -> buckets.Read:
    return lambda start, length: store.read(key, start, start + length)
