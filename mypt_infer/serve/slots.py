"""Holds the KV cache of rows that come and go. Needs torch.

Input: rows by number, 0 to count - 1, and ids for each. Output: logits. The rows in use are always
the first ones, so a step reads a view of the cache: as many rows, and as many places, as there are.
Rows and places are doubled when they are used up.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mypt_infer.generate.llama import Cache, Llama
from mypt_infer.generate.loop import read

_ROWS, _PLACES = 1, 256


class Slots:
    """The KV cache of a Llama, for at most `rows` rows."""

    def __init__(self, model: Llama, rows: int, device: torch.device | str = "cpu") -> None:
        self.model, self.rows, self.device = model, rows, device
        self.filled: list[int] = []
        self._cache: Cache = model.begin(_ROWS, _PLACES)

    @property
    def count(self) -> int:
        """Returns the number of rows in use."""
        return len(self.filled)

    def add(self) -> int:
        """Returns the number of a new, empty row."""
        self.filled.append(0)
        return self.count - 1

    def drop(self, row: int) -> None:
        """Ends a row. The last row takes its number."""
        last = self.count - 1
        if row != last:
            size = self.filled[last]
            for part in (self._cache.keys, self._cache.values):
                part[:, row, :, :size] = part[:, last, :, :size]
            self.filled[row] = self.filled[last]
        self.filled.pop()

    def read(self, rows: range, ids: Sequence[Sequence[int]]) -> Tensor:
        """Returns the logits after the next ids of each of some rows: (rows, vocabulary).

        A row without ids stays as it is, and its logits mean nothing.
        """
        after = [self.filled[row] + len(part) for row, part in zip(rows, ids, strict=True)]
        self._grow(max(after))
        places = max(after) + 1  # the last one takes the padding of chunks, and is read by no row
        view = Cache(
            self._cache.keys[:, rows.start : rows.stop, :, :places],
            self._cache.values[:, rows.start : rows.stop, :, :places],
            torch.tensor([self.filled[row] for row in rows], device=self.device),
        )
        out = read(self.model, ids, view, self.device)
        self.filled[rows.start : rows.stop] = after
        return out

    def _grow(self, places: int) -> None:
        """Makes room for the rows in use and for `places` ids in each."""
        layers_rows = self._cache.keys.shape
        rows, room = layers_rows[1], layers_rows[3] - 1
        if self.count <= rows and places <= room:
            return
        while rows < self.count:
            rows = min(self.rows, rows * 2)
        while room < places:
            room *= 2
        grown = self.model.begin(rows, room)
        for old, new in (
            (self._cache.keys, grown.keys),
            (self._cache.values, grown.values),
        ):
            new[:, : old.shape[1], :, : old.shape[3]] = old
        self._cache = grown
