"""Shards: the files of a prepared data set, and the index of each.

`shard_00000.bin` holds uint16 ids, `shard_00000_mask.bin` a uint8 for each, 1 where the token is a
target, `shard_00000_idx.npy` an array of INDEX, one entry an episode, `shard_00000_kinds.npy` in
data with preferences an array of KINDS likewise. Rows follow one another without a gap; what no
episode covers is padding.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mypt_train.data import durable, parquet
from mypt_train.data.kinds import KINDS
from mypt_train.data.manifest import files_of
from mypt_train.data.units import Key, UnitFile, path_of

INDEX = np.dtype(
    [("start", "<u8"), ("length", "<u4"), ("row", "<u4"), ("file", "<u4"), ("line", "<u8")]
)
_OPEN = 200  # unit files that are held open
_AT_ONCE = 1 << 18  # tokens that are written at once


class Placed(NamedTuple):
    """An episode where it lies in a unit: number of the unit, first token, length, its file and
    line of the input; kind and pair.
    """

    unit: int
    offset: int
    length: int
    file: int
    line: int
    kind: int = 0
    pair: int = 0


class Units:
    """The unit files of a data set, in order; a bounded number of them is held open, none of their
    tokens in memory.
    """

    def __init__(self, folder: Path, keys: tuple[Key, ...]) -> None:
        self.paths = [path_of(folder, key) for key in keys]
        self.places: dict[int, tuple[int, int]] = {}
        self.open: dict[int, FileIO] = {}

    def __enter__(self) -> Units:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self.open.values():
            file.close()

    def ids(self, placed: Placed, out: npt.NDArray[np.uint16]) -> None:
        """Read the ids of an episode into an array of its length."""
        self._read(placed, 0, out)

    def mask(self, placed: Placed, out: npt.NDArray[np.uint8]) -> None:
        """Read the targets of an episode into an array of its length."""
        self._read(placed, 1, out)

    def _read(self, placed: Placed, which: int, out: npt.NDArray[Any]) -> None:
        number = placed.unit
        file = self.open.get(number)
        if file is None:
            if len(self.open) >= _OPEN:
                self.open.pop(next(iter(self.open))).close()
            file = self.open[number] = FileIO(self.paths[number])
        if number not in self.places:
            unit = UnitFile.open(self.paths[number])
            self.places[number] = unit.ids_at, unit.mask_at
        file.seek(self.places[number][which] + out.itemsize * placed.offset)
        if file.readinto(out.data) != out.nbytes:
            raise OSError(None, "is shorter than it was written", str(self.paths[number]))


def write_shard(
    folder: Path,
    number: int,
    rows: list[list[Placed]],
    row_length: int,
    units: Units,
    pad: int,
    form: str = "bin",
    *,
    preferences: bool = False,
) -> dict[str, Any]:
    """Write the files of a shard; its entry in the manifest. `row_length` 0: episodes one after
    another, no padding. `pad`: the id that fills up rows.

    Raises OSError where a file cannot be written.
    """
    index = np.zeros(sum(map(len, rows)), INDEX)
    kinds = np.zeros(len(index), KINDS)
    starts = np.zeros(len(rows), np.int64)
    at = entry = trained = 0
    for number_of_row, row in enumerate(rows):
        begin = starts[number_of_row] = at
        for placed in row:
            index[entry] = (at, placed.length, number_of_row, placed.file, placed.line)
            kinds[entry] = (placed.kind, placed.pair)
            at += placed.length
            entry += 1
        at = begin + row_length if row_length else at

    def ids() -> Iterator[npt.NDArray[np.uint16]]:
        return _filled(rows, row_length, "<u2", pad, units.ids)

    def masks() -> Iterator[npt.NDArray[np.uint8]]:
        nonlocal trained
        for mask in _filled(rows, row_length, "u1", 0, units.mask):
            trained += int(mask.sum())
            yield mask

    name = f"{folder.name}/shard_{number:05}"
    if form == "parquet":
        whole = parquet.dump(np.concatenate([*ids()]), np.concatenate([*masks()]), index, starts)
        pieces: list[Iterable[memoryview]] = [[whole]]
    else:
        pieces = [(a.data.cast("B") for a in ids()), (a.data for a in masks()), [_saved(index)]]
        pieces += [[_saved(kinds)]] * preferences
    files = zip(files_of(name, form, preferences), pieces, strict=True)
    written = {file: _write(folder.parent / file, parts) for file, parts in files}
    return {
        "name": name,
        "tokens": at,
        "episodes": len(index),
        "rows": len(rows),
        "episode_tokens": int(index["length"].sum()),
        "trained_tokens": trained,
        "files": written,
    }


def _filled(
    rows: list[list[Placed]],
    row_length: int,
    dtype: str,
    pad: int,
    read: Callable[[Placed, Any], None],
) -> Iterator[npt.NDArray[Any]]:
    """What is read for the episodes of rows, and padding, a few rows at a time: so a shard takes no
    memory of its size.
    """
    for some in shards_of(rows, row_length, _AT_ONCE):
        out = np.full(
            row_length * len(some) or sum(p.length for row in some for p in row), pad, dtype
        )
        at = 0
        for row in some:
            begin = at
            for placed in row:
                read(placed, out[at : at + placed.length])
                at += placed.length
            at = begin + row_length if row_length else at
        yield out


def _write(path: Path, pieces: Iterable[memoryview]) -> dict[str, Any]:
    """Write a file; its size and SHA-256."""
    digest, size = hashlib.sha256(), 0

    def told() -> Iterator[memoryview]:
        nonlocal size
        for piece in pieces:
            digest.update(piece)
            size += piece.nbytes
            yield piece

    durable.write(path, told())
    return {"bytes": size, "sha256": digest.hexdigest()}


def _saved(array: npt.NDArray[np.void]) -> memoryview:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getbuffer()


def shards_of(
    rows: list[list[Placed]], row_length: int, tokens_per_shard: int
) -> Iterator[list[list[Placed]]]:
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
