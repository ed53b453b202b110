"""Leaves out repeated episodes across groups.

Input: a plan with `dedup`, whose units are made. Before groups are packed, the digests of all units
are read, and for each group is written which samples repeat an earlier one, in the order of the
plan. What stays is what a set of digests in that order would keep. Of a plan with one group,
packing does it.

Theory of operation. All digests may need more memory than there is. Equal ones begin with equal
bits, so entries are divided by the remainder of their first half, into files of this machine, each
of which fits. They are written in the order of the plan, so a stable sort by digest leaves the
first of equal ones in front.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from mypt_cli.run import in_threads
from mypt_cli.store import Store
from mypt_train.data.unit_files import UnitFile
from mypt_train.scale.planning import places
from mypt_train.scale.planning.plan import Plan
from mypt_train.scale.state import Progress, UnitCounts
from mypt_train.scale.unit.report import report_of

# Both halves of a digest as numbers, and the place of its sample.
ENTRY = np.dtype([("high", "<u8"), ("low", "<u8"), ("unit", "<u4"), ("sample", "<u4")])
Entries = npt.NDArray[np.void]
# The most entries of a file, about; sorting takes four times their bytes.
_MOST = 1 << 25
# The head of a unit file is read in pieces of so many bytes; its tokens are not wanted.
_PIECE = 128 << 10


def needed(plan: Plan) -> bool:
    """Returns whether repeats have to be looked for across groups."""
    return plan.options.dedup and plan.groups > 1


def find(plan: Plan, counts: UnitCounts, progress: Progress) -> None:
    """Writes which samples of each group repeat an earlier one; the last group comes last.

    `progress` is told how many units are read. Raises StoreError and OSError.
    """
    store = plan.store()
    units = range(len(plan.units))

    def read() -> Iterable[Entries]:
        for done, entries in enumerate(in_threads(partial(_entries, store), units), 1):
            progress("reading", done, len(units))
            yield entries

    rows = repeated(read(), 1 + counts.samples // _MOST)
    groups = np.zeros(len(plan.units), np.int64)
    for number in range(plan.groups):
        groups[plan.of_group(number)] = number
    group_of = groups[rows["unit"]]
    order = np.argsort(group_of, kind="stable")
    ends = np.searchsorted(group_of[order], np.arange(plan.groups + 1))
    for number, (start, end) in enumerate(pairwise(ends.tolist())):
        store.put(places.repeats(number), rows[order[start:end]].tobytes())


def repeated(entries: Iterable[Entries], parts: int) -> Entries:
    """Returns the entries, given in the order of the plan, whose digest was there before.

    They are sorted by unit and sample. Memory: about four times the entries of one of `parts`.
    """
    out = [np.empty(0, ENTRY)]
    with TemporaryDirectory(prefix="mypt-digests-") as folder:
        paths = [Path(folder, f"{number}") for number in range(parts)]
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("wb")) for path in paths]
            for some in entries:
                numbers = some["high"] % np.uint64(parts)
                for number, file in enumerate(files):
                    file.write(some[numbers == number].tobytes())
        for path in paths:
            part = np.fromfile(path, ENTRY)
            part = part[np.argsort(part["high"], kind="stable")]
            same = np.zeros(len(part) + 1, bool)
            np.equal(part["high"][1:], part["high"][:-1], out=same[1:-1])
            near = part[same[1:] | same[:-1]]  # all that may be equal, which are few as a rule
            near = near[np.lexsort((near["low"], near["high"]))]
            again = (near["high"][1:] == near["high"][:-1]) & (near["low"][1:] == near["low"][:-1])
            out.append(near[1:][again])
    rows = np.concatenate(out)
    return rows[np.lexsort((rows["sample"], rows["unit"]))]


def repeats_of(plan: Plan, group: int) -> dict[int, frozenset[int]]:
    """Returns for each unit of a group the samples that repeat earlier ones. Raises StoreError."""
    rows = np.frombuffer(plan.store().read(places.repeats(group)), ENTRY)
    units, starts = np.unique(rows["unit"], return_index=True)
    samples: list[Any] = np.split(rows["sample"], starts[1:])
    return {int(unit): frozenset(some.tolist()) for unit, some in zip(units, samples, strict=False)}


def entries_of(unit: int, digests: npt.NDArray[np.void], first: int = 0) -> Entries:
    """Returns an entry for each digest (16 bytes) of a unit; `first` numbers its first sample."""
    halves = np.frombuffer(digests.tobytes(), ">u8").reshape(-1, 2)
    out = np.empty(len(halves), ENTRY)
    out["high"], out["low"], out["unit"] = halves[:, 0], halves[:, 1], unit
    out["sample"] = np.arange(first, first + len(out))
    return out


def _entries(store: Store, unit: int) -> Entries:
    """Returns the entries of a unit; its samples count through its parts."""
    out, before = [np.empty(0, ENTRY)], 0
    parts = report_of(store, unit).parts
    with store.open(places.unit(unit), piece=_PIECE, ahead=False) as data:
        for part in parts:
            data.seek(part.at)
            out.append(entries_of(unit, UnitFile.read(data).digests, before))
            before += part.samples
    return np.concatenate(out)
