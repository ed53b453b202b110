"""Holds the KV cache of rows that come and go. Needs torch.

Input: rows by number, 0 to count - 1, and ids for each. Output: logits. The rows in use are always
the first ones, so a step reads a view of the cache: as many rows, and as many places, as there are.
Rows and places are doubled when they are used up. A row that has ended keeps what it has read until
another one takes its place: prompts that begin as one that is there begin with a copy of it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from mypt_infer.generate.llama import Cache, Llama
from mypt_infer.generate.loop import read
from mypt_spec.patch import in_common

_ROWS, _PLACES = 1, 256


class Slots:
    """The KV cache of a Llama, for at most `rows` rows."""

    def __init__(self, model: Llama, rows: int, device: torch.device | str = "cpu") -> None:
        self.model, self.rows, self.device = model, rows, device
        self.count = 0  # the number of rows in use
        self._read_ids: list[list[int]] = []  # what each row has read, also those not in use
        self._cache: Cache = model.begin(_ROWS, _PLACES)

    def add(self) -> int:
        """Returns the number of a new row. Before it reads, `begin` it."""
        self.count += 1
        if len(self._read_ids) < self.count:
            self._read_ids.append([])
        self._grow(0)
        return self.count - 1

    def reusable_ids(self, ids: Sequence[int]) -> int:
        """Returns the number of ids with which `begin` would begin a row."""
        return min(len(ids) - 1, max(in_common(row_ids, ids) for row_ids in self._read_ids))

    def begin(self, row: int, ids: Sequence[int]) -> int:
        """Begins a row with what some row has read of ids; returns the number of these.

        That is less than all of them, because the logits after the last one are still to be had.
        """
        sizes = [in_common(row_ids, ids) for row_ids in self._read_ids]
        best = max(range(len(sizes)), key=lambda other: (sizes[other], other == row))
        size = min(sizes[best], len(ids) - 1)
        if best != row:
            for part in (self._cache.keys, self._cache.values):
                part[:, row, :, :size] = part[:, best, :, :size]
        self._read_ids[row] = list(ids[:size])
        return size

    def drop(self, row: int) -> None:
        """Ends a row: it changes its place with the last row, which takes its number."""
        last, rows_of_ids = self.count - 1, self._read_ids
        if row != last:
            size = max(len(rows_of_ids[row]), len(rows_of_ids[last]))
            for part in (self._cache.keys, self._cache.values):
                part[:, [row, last], :, :size] = part[:, [last, row], :, :size]
            rows_of_ids[row], rows_of_ids[last] = rows_of_ids[last], rows_of_ids[row]
        self.count -= 1

    def read(self, rows: range, ids: Sequence[Sequence[int]]) -> Tensor:
        """Returns the logits after the next ids of each of some rows: (rows, vocabulary).

        A row without ids stays as it is, and its logits mean nothing.
        """
        row_ids = self._read_ids[rows.start : rows.stop]
        longest = max(len(before) + len(part) for before, part in zip(row_ids, ids, strict=True))
        self._grow(longest)
        places = longest + 1  # the last one takes the padding of chunks, and is read by no row
        view = Cache(
            self._cache.keys[:, rows.start : rows.stop, :, :places],
            self._cache.values[:, rows.start : rows.stop, :, :places],
            torch.tensor([len(before) for before in row_ids], device=self.device),
        )
        out = read(self.model, ids, view, self.device)
        for read_before, part in zip(row_ids, ids, strict=True):
            read_before += part
        return out

    def _grow(self, places: int) -> None:
        layers_rows = self._cache.keys.shape
        rows, room = layers_rows[1], layers_rows[3] - 1
        if self.count <= rows and places <= room:
            return
        while rows < self.count:
            rows = min(self.rows, rows * 2)
        while room < places:
            room *= 2
        grown = self.model.begin(rows, room)
        for old, new in ((self._cache.keys, grown.keys), (self._cache.values, grown.values)):
            new[:, : old.shape[1], :, : old.shape[3]] = old
        self._cache = grown
