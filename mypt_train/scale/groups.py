"""Packs the units of a group into rows, and writes their shards.

Input: a plan and the number of a group. Output: shards of all splits in the store of the
data set, and a report for the manifest. A group is a function of the plan and its number, once all
units are made. Memory and disk: those of the group's units.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np

from mypt_cli import atomic
from mypt_cli.jsonl.names import REJECTS, WORK
from mypt_cli.store import Store, StoreError, is_url
from mypt_train.data.collection import Collection
from mypt_train.data.formats.manifest import dtype_of
from mypt_train.data.shards import write_splits
from mypt_train.data.unit_files import Part
from mypt_train.scale import repeats
from mypt_train.scale.planning import places
from mypt_train.scale.planning.plan import Plan
from mypt_train.scale.state import Progress, UnitCounts
from mypt_train.scale.unit.report import UnitReport, report_of


@dataclass(frozen=True, slots=True)
class GroupReport:
    """What a group holds: totals as `Totals.as_dict`, and manifest entries of shards by split."""

    group: int
    totals: dict[str, Any]
    splits: dict[str, list[dict[str, Any]]]


def make_group(
    plan: Plan, counts: UnitCounts, number: int, progress: Progress = lambda *_: None
) -> GroupReport:
    """Writes the shards of a group, and its report. Raises StoreError and OSError.

    If repeats are left out, they are found before (`repeats`). `progress` is told of "reading",
    units, and of "writing", bytes of shards: how many are done, and how many there are.
    """
    store, before = plan.store(), counts.before()
    repeated = repeats.repeats_of(plan, number) if repeats.needed(plan) else {}
    collection = Collection([source.path for source in plan.inputs], plan.options)
    with _room(plan) as folder:
        room = Path(folder)
        units = plan.of_group(number)
        for done, unit in enumerate(units):
            progress("reading", done, len(units))
            report = report_of(store, unit)
            path = fetched(plan, store, report, room)
            samples = 0
            for part in report.parts:
                collection.take(
                    Part(path, part.file, part.piece, part.at),
                    before[part.file, part.piece],
                    repeated={n - samples for n in repeated.get(unit, ())},
                )
                samples += part.samples
        one = plan.groups == 1
        splits = write_splits(
            collection,
            room,
            plan.options,
            _counting(collection, plan, progress),
            weights=counts.weights,
            prefix="shard" if one else f"group_{number:05}",
            seed=plan.options.seed if one else (plan.options.seed, number),
        )
        for shards in splits.values():
            for shard in shards:
                for name in shard["files"]:
                    _put(plan, store, room / name, name)
    name = REJECTS if one else places.rejects(number)
    if one or collection.rejects:
        plan.put(name, b"".join(collection.rejects))
    group_report = GroupReport(number, collection.totals.as_dict(), splits)
    store.put(places.group(number), msgspec.json.encode(group_report))
    return group_report


def _counting(collection: Collection, plan: Plan, progress: Progress) -> Callable[[int], None]:
    """Returns what turns tokens that were written into bytes that are written of all."""
    width = np.dtype(dtype_of(plan.options.loaded_dialect.tokenizer.vocab_size)).itemsize + 1
    size = width * sum(p.length for items in collection.placed.values() for p in items)
    written = 0

    def wrote(tokens: int) -> None:
        nonlocal written
        written += width * tokens
        progress("writing", written, size)

    return wrote


def fetched(plan: Plan, store: Store, report: UnitReport, room: Path) -> Path:
    """Returns the path of a unit on this machine, having proved that it is whole.

    It is fetched into the folder `room` if it is in a store.
    """
    key = places.unit(report.unit)
    path = Path(plan.out, *key.split("/"))
    if is_url(plan.out):
        path = room / f"unit_{report.unit}.bin"
        with store.open(key) as stream, path.open("wb") as out:
            shutil.copyfileobj(stream, out, 1 << 20)
    if path.stat().st_size != report.size or atomic.sha256(path) != report.sha256:
        raise StoreError(
            f"{store.name(key)}: is not as it was written; delete it and its .json, then use "
            "mypt-prepare run",
            "changed",
        )
    return path


def _room(plan: Plan) -> TemporaryDirectory[str]:
    """Returns an empty folder for files until they are put; on the disk of a local data set."""
    if is_url(plan.out):
        return TemporaryDirectory(prefix="mypt-group-")
    return TemporaryDirectory(prefix="room-", dir=Path(plan.out, WORK), ignore_cleanup_errors=True)


def _put(plan: Plan, store: Store, path: Path, key: str) -> None:
    """Puts a file that was written, and removes it here."""
    if is_url(plan.out):
        store.put(key, path)
        path.unlink()
        return
    target = Path(plan.out, *key.split("/"))
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(path, target)
    atomic.sync_folder(target.parent)
