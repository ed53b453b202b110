"""Masks logits on the device where they are, for a batch of rows.

Input: logits, and the states of rows on the host. Output: logits of allowed ids alone. What is
allowed is kept there as tensors. To keep the states there, too, and the tables, took more time on a
GPU and on a CPU than to copy what is allowed, except for 64 rows in a compiled loop.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mypt_infer.decode.base.allow import write_rows
from mypt_infer.decode.decoder import AllowSet, Decoder
from mypt_spec.memo import Memo

_REFUSED = -float("inf")
# The number of allow sets that are kept as tensors.
_MAX_ENTRIES = 1 << 13
# The most bytes of these.
_ROOM = 16 << 20


class DeviceDecoder:
    """A decoder whose allow sets are tensors on one device."""

    def __init__(self, decoder: Decoder, device: torch.device | str = "cpu") -> None:
        self.decoder, self.device = decoder, device
        self._lists = Memo[AllowSet, Tensor](_MAX_ENTRIES, room=_ROOM)

    def apply_(self, logits: Tensor, states: Sequence[int]) -> Tensor:
        """Sets the logits of refused ids to -inf, in place; returns the logits, (rows, vocabulary).

        `states` are integers on the host. On a CPU this is the fastest way, because it writes only
        what has to change.
        """
        if logits.shape[0] != len(states):
            raise ValueError(f"{len(logits)} rows of logits, {len(states)} states")
        sets = self.decoder.allow_each(states)
        try:
            write_rows(logits.numpy(), sets)
        except (TypeError, RuntimeError):  # elsewhere, of a type that NumPy lacks, part of a graph
            for row, allow_set in zip(logits, sets, strict=True):
                self.mask_row(row, allow_set)
        return logits

    def mask_row(self, row: Tensor, allow_set: AllowSet) -> None:
        """Sets the logits of refused ids in one row to -inf, by operations of torch alone."""
        ids = self._lists.entries.get(allow_set)
        if ids is None:
            ids = torch.as_tensor(allow_set.places, device=self.device)
            self._lists.keep(allow_set, ids, ids.nbytes + allow_set.size)
        if allow_set.only is None:
            row.index_fill_(0, ids, _REFUSED)
        else:
            values = row[ids]
            row.fill_(_REFUSED)
            row[ids] = values
