"""Finds repeated episodes by their digests, in buckets that fit into memory.

Input: the digests of the samples of each unit. Output: the places of all samples whose digest was
there before, in the order of the plan. What stays is what a set in plan order would keep.

Theory of operation. A set of all digests does not fit into one machine, but equal digests begin
with equal bits. So stage 1 divides the digests of some units into buckets by their first bits, and
writes them as one file, a *run*. Stage 2 is one task for each bucket: it reads the part of that
bucket from all runs, sorts it, and of equal digests keeps the sample of the least unit, and in a
unit the least sample. No task waits for another of its stage, and neither the order of units nor
their division into runs changes what is found.

A run holds each digest once: what is repeated inside of the run is already found in stage 1. So a
conversation that is there a million times fills no bucket.

Three samples in two units, two buckets. Sample 1 of unit 7 repeats sample 0 of unit 3:

>>> a, b = bytes(16), bytes([255]) * 16
>>> first, _ = run([entries(3, np.frombuffer(a, "V16"))], 1)
>>> second, _ = run([entries(7, np.frombuffer(b + a, "V16"))], 1)
>>> reads = [lambda at, size, data=data: data[at : at + size] for data in (first, second)]
>>> [settle(reads, bucket).tolist() for bucket in (0, 1)]
[[(7, 1)], []]
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

# The first eight bytes of a digest as a number, the last eight, and the place of its sample.
ENTRY = np.dtype([("high", "<u8"), ("low", "<u8"), ("unit", "<u4"), ("sample", "<u4")])
PLACE = np.dtype([("unit", "<u4"), ("sample", "<u4")])
Entries = npt.NDArray[np.void]
Places = npt.NDArray[np.void]
Read = Callable[[int, int], bytes]
"""Returns `length` bytes of a file from `start` on: `read(start, length)`."""

BITS = 12
_THREADS = 16
_HEAD = struct.Struct("<8sII")
_MAGIC = b"myptpart"


def entries(
    unit: int, digests: npt.NDArray[np.void], samples: npt.NDArray[Any] | None = None
) -> Entries:
    """Returns one entry for each digest (16 bytes each) of a unit of the plan.

    `samples` are the numbers of the samples in the unit; by default they count from 0.
    """
    halves = np.frombuffer(digests.tobytes(), ">u8").reshape(-1, 2)
    out = np.empty(len(halves), ENTRY)
    out["high"], out["low"], out["unit"] = halves[:, 0], halves[:, 1], unit
    out["sample"] = np.arange(len(out)) if samples is None else samples
    return out


def run(pieces: Iterable[Entries], bits: int = BITS) -> tuple[bytes, Places]:
    """Returns a run of some units for 2**`bits` buckets (0 to 16), and what repeats inside of it.

    Memory: about four times 24 bytes for each entry of `pieces`.
    """
    every = np.concatenate([np.empty(0, ENTRY), *pieces])
    repeated = _repeated(every)
    once = every[~repeated]
    return divided(once, _leading(once, bits), 1 << bits), _places(every[repeated])


def settle(runs: Sequence[Read], bucket: int) -> Places:
    """Returns the places of a bucket that repeat an earlier one, sorted by unit and sample.

    Memory: about four times 24 bytes for each entry of the bucket. Raises ValueError for a file
    that is no whole run, or runs that were made for different numbers of buckets.
    """
    with ThreadPoolExecutor(_THREADS) as threads:  # a store answers many requests at a time
        parts = [*threads.map(lambda read: part_of(read, bucket, ENTRY, "run of digests"), runs)]
    if len({count for _, count in parts}) > 1:
        raise ValueError("each run of digests must be made for the same number of buckets")
    every = np.concatenate([np.empty(0, ENTRY), *(items for items, _ in parts)])
    places = _places(every[_repeated(every)])
    ordered: Places = places[np.lexsort((places["sample"], places["unit"]))]
    return ordered


def _leading(items: Entries, bits: int) -> npt.NDArray[np.uint16]:
    """Returns the first `bits` bits of each digest as a number."""
    if not bits:
        return np.zeros(len(items), np.uint16)
    return (items["high"] >> np.uint64(64 - bits)).astype(np.uint16)


def _repeated(items: Entries) -> npt.NDArray[np.bool_]:
    """Returns for each entry whether another with its digest has a smaller place."""
    order = np.argsort(items["high"])
    high = items["high"][order]
    same = np.zeros(len(items) + 1, bool)
    np.equal(high[1:], high[:-1], out=same[1:-1])
    near = order[same[1:] | same[:-1]]  # all that may be equal, which are few as a rule
    few = items[near]
    by_place = np.lexsort((few["sample"], few["unit"], few["low"], few["high"]))
    few = few[by_place]
    again = (few["high"][1:] == few["high"][:-1]) & (few["low"][1:] == few["low"][:-1])
    out = np.zeros(len(items), bool)
    out[near[by_place[1:][again]]] = True
    return out


def _places(items: Entries) -> Places:
    out = np.empty(len(items), PLACE)
    out["unit"], out["sample"] = items["unit"], items["sample"]
    return out


def divided(items: npt.NDArray[np.void], numbers: npt.NDArray[Any], parts: int) -> bytes:
    """Returns a file of `items` in `parts` parts, which `part_of` reads one at a time.

    `numbers` says the part of each item; inside of a part, the order stays. The file: "myptpart",
    bytes of an item and number of parts (uint32 each), where each part begins and where the last
    ends, in items (uint64 each), then the items; all little-endian.
    """
    order = np.argsort(numbers, kind="stable")
    starts = np.zeros(parts + 1, "<u8")
    np.cumsum(np.bincount(numbers, minlength=parts), out=starts[1:])
    head = _HEAD.pack(_MAGIC, items.dtype.itemsize, parts)
    return head + starts.tobytes() + items[order].tobytes()


def part_of(
    read: Read, number: int, dtype: np.dtype[Any], kind: str
) -> tuple[npt.NDArray[np.void], int]:
    """Returns one part of a file that `divided` made, and how many parts the file has.

    Raises ValueError, naming the `kind` of file, for one that is cut short or another.
    """
    head = read(0, _HEAD.size)
    if len(head) != _HEAD.size or head[: len(_MAGIC)] != _MAGIC:
        raise ValueError(f"is no {kind}")
    _, size, parts = _HEAD.unpack(head)
    places = read(_HEAD.size + 8 * number, 16)
    if size != dtype.itemsize or number >= parts or len(places) != 16:
        raise ValueError(f"is not a complete {kind}")
    begin, end = struct.unpack("<QQ", places)
    data = read(_HEAD.size + 8 * (parts + 1) + size * begin, size * (end - begin))
    if len(data) != size * (end - begin):
        raise ValueError(f"is not a complete {kind}; make it again")
    return np.frombuffer(data, dtype), parts
