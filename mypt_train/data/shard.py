"""Defines a shard of a prepared data set, as arrays, and the error of one that cannot be read.

In a data set with preferences, each episode is of one of five kinds, which say what it is for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mypt_train.data.formats import manifest

SFT, CHOSEN, REJECTED, GOOD, BAD = range(5)
KINDS = np.dtype([("kind", "u1"), ("pair", "<u4")])
"""One entry for each episode of a shard: one of the kinds above, and the number of its pair.

A chosen and a rejected answer have the same number, from 1 on. All other episodes have 0.
"""
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
    - `kinds`: one entry of KINDS for each episode in data with preferences, or None.
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
