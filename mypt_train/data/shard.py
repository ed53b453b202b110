"""Defines a shard of a prepared data set, as arrays, and the error of one that cannot be read.

Both the reader, which refuses a bad data set, and `mypt-lint`, which lists all that is wrong with
it, compare what a shard and the manifest say with what the shard holds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mypt_train.data.formats import manifest

INDEX = np.dtype(
    [("start", "<u8"), ("length", "<u4"), ("row", "<u4"), ("file", "<u4"), ("line", "<u8")]
)


class ShardError(Exception):
    """A folder is no data set to train on; the message names the file and what to do."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard, mapped from the disk (read, if it is Parquet).

    - `ids`: of the manifest's `dtype`, shape (n,). `mask`: uint8, shape (n,), 1 where the token is
      a target.
    - `index`: one entry of INDEX for each episode: `start`, `length`, `row`, `file`,
      `line`.
    - `row_length`: tokens of a row, 0 if episodes follow one another without rows.
    - `weights`: float32, shape (n,), how much each token is trained, 0 where it is no target; None
      if each target counts 1.
    - `kinds`: one entry of `manifest.KINDS` for each episode in data with preferences, or None.
    """

    name: str
    ids: manifest.TokenIds
    mask: npt.NDArray[np.uint8]
    index: npt.NDArray[np.void]
    row_length: int
    kinds: npt.NDArray[np.void] | None = None
    weights: npt.NDArray[np.float32] | None = None

    def episodes(self) -> Iterator[tuple[manifest.TokenIds, npt.NDArray[np.uint8]]]:
        """Yields the ids and targets of each episode, as views of the shard."""
        for entry in self.index:
            start, end = int(entry["start"]), int(entry["start"]) + int(entry["length"])
            yield self.ids[start:end], self.mask[start:end]


def misplaced(shard: Shard, files: int) -> Iterator[tuple[int, int, int, str]]:
    """Yields (number, start, end, message) for each episode at an impossible place.

    `number` counts the episodes of the shard from 1; `start` and `end` are tokens of the shard.
    `files` is the number of inputs; an episode of a higher input is misplaced, too.
    """
    index, row, size = shard.index, shard.row_length, len(shard.ids)
    start = index["start"]
    # The minimum keeps the sum of uint64 from wrapping around.
    end = np.minimum(start, size) + index["length"]
    outside = (end > size) | (index["length"] == 0)
    if row:
        outside |= (start // row != index["row"]) | ((end - 1) // row != index["row"])
    else:
        outside |= index["row"] != np.arange(len(index))
    # Where the episode before each episode ends.
    before = np.append(np.zeros(1, np.uint64), end)[:-1]
    first_of_row = np.append(True, np.diff(index["row"]) != 0)[: len(index)]
    follows = np.where(first_of_row & bool(row), index["row"] * np.uint64(row), before)
    strange = index["file"] >= files
    for i in np.flatnonzero(outside | (start != follows) | strange).tolist():
        entry = index[i]
        first, last = int(entry["start"]), int(entry["start"]) + int(entry["length"])
        where = f"the episode at tokens {first}..{last}"
        if outside[i]:
            yield i + 1, first, last, f"{where} does not lie in its row"
        elif first < follows[i]:
            yield i + 1, first, last, f"{where} reaches into another one"
        elif first > follows[i]:
            yield i + 1, first, last, f"{where} comes after a gap, at {follows[i]}"
        if strange[i]:
            yield i + 1, first, last, f"{where} is of input {entry['file']}, there are {files}"


def miscounted(shard: Shard, entry: Mapping[str, Any]) -> Iterator[str]:
    """Yields a message for each count in the manifest's entry that the shard contradicts."""
    row, size = shard.row_length, len(shard.ids)
    counted = {
        "tokens": size,
        "trained_tokens": int(shard.mask.sum()),
        "episodes": len(shard.index),
        "rows": (size / row if size % row else size // row) if row else len(shard.index),
        "episode_tokens": int(shard.index["length"].sum()),
    }
    for name, number in counted.items():
        if entry[name] != number:
            yield f"{name}: the manifest says {entry[name]}, the shard has {number}"


def missummed(split: Mapping[str, Any]) -> Iterator[str]:
    """Yields a message for each count of a split that is not the sum over its shards."""
    for name in manifest.Counts.__annotations__:
        total = sum(shard[name] for shard in split["shards"])
        if split[name] != total:
            yield f"{name}: the manifest says {split[name]}, its shards have {total}"
