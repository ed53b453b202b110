"""Shards: the files of a prepared data set, and the index of each.

`shard_00000.bin` holds uint16 ids, `shard_00000_mask.bin` a uint8 for each, 1 where the token is a target, `shard_00000_idx.npy`
an array of INDEX, one entry an episode. Rows follow one another without a gap; what no episode covers is padding.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mypt_train import durable
from mypt_train.options import PAD_ID
from mypt_train.units import Key, UnitFile, path_of

INDEX = np.dtype([("start", "<u8"), ("length", "<u4"), ("row", "<u4"), ("file", "<u4"), ("line", "<u8")])
_OPEN = 64  # unit files that are held open


class Placed(NamedTuple):
    """An episode where it lies in a unit: number of the unit, first token, length, and its file and line of the input."""

    unit: int
    offset: int
    length: int
    file: int
    line: int


class Units:
    """The unit files of a data set, in order; a bounded number of them is held open."""

    def __init__(self, folder: Path, keys: tuple[Key, ...]) -> None:
        self._open = lru_cache(maxsize=_OPEN)(lambda number: UnitFile.open(path_of(folder, keys[number])))

    def tokens(self, placed: Placed) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint8]]:
        """The ids and targets of an episode."""
        unit = self._open(placed.unit)
        end = placed.offset + placed.length
        return unit.ids[placed.offset : end], unit.mask[placed.offset : end]


def write_shard(folder: Path, number: int, rows: list[list[Placed]], row_length: int, units: Units) -> dict[str, Any]:
    """Write the three files of a shard; its entry in the manifest. `row_length` 0: episodes one after another, no padding.

    Raises OSError where a file cannot be written.
    """
    total = sum(p.length for row in rows for p in row) if not row_length else row_length * len(rows)
    ids = np.full(total, PAD_ID, "<u2")
    mask = np.zeros(total, np.uint8)
    index = np.zeros(sum(map(len, rows)), INDEX)
    at = entry = 0
    for number_of_row, row in enumerate(rows):
        begin = at
        for placed in row:
            found, targets = units.tokens(placed)
            ids[at : at + placed.length], mask[at : at + placed.length] = found, targets
            index[entry] = (at, placed.length, number_of_row, placed.file, placed.line)
            at += placed.length
            entry += 1
        at = begin + row_length if row_length else at
    buffer = io.BytesIO()
    np.save(buffer, index, allow_pickle=False)
    name = f"shard_{number:05}"
    files = {f"{name}.bin": ids.tobytes(), f"{name}_mask.bin": mask.tobytes(), f"{name}_idx.npy": buffer.getvalue()}
    for file, data in files.items():
        durable.write(folder / file, [data])
    return {
        "name": f"{folder.name}/{name}",
        "tokens": total,
        "episodes": len(index),
        "rows": len(rows),
        "episode_tokens": int(index["length"].sum()),
        "trained_tokens": int(mask.sum()),
        "files": {f"{folder.name}/{file}": {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for file, data in files.items()},
    }


def shards_of(rows: list[list[Placed]], row_length: int, tokens_per_shard: int) -> Iterator[list[list[Placed]]]:
    """Rows in lists of at most `tokens_per_shard` tokens, at least one row each."""
    held: list[list[Placed]] = []
    size = 0
    for row in rows:
        length = row_length or sum(p.length for p in row)
        if held and size + length > tokens_per_shard:
            yield held
            held, size = [], 0
        held.append(row)
        size += length
    if held:
        yield held
