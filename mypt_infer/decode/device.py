"""The decoder on tensors: a batch steps with static shapes and without a word to the host, so it compiles as one graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mypt_infer.decode.decoder import _BLOCK_BITS, _SHIFT, ENDLESS, UNBOUNDED, AllowSet, Decoder
from mypt_infer.decode.net import NO_BLOCK
from mypt_infer.decode.tables import DEAD_STATE

_NUMPY = (torch.float32, torch.float64, torch.float16)
_INF = float("inf")


class DeviceDecoder:
    """`bias` and `step` of a Decoder for int64 tensors of its states, shape (rows,), on one device.

    A refused token leads to state 0, in which nothing is allowed, instead of an error: an error would have to ask the device.
    """

    def __init__(self, decoder: Decoder, device: torch.device | str = "cpu") -> None:
        tables = decoder.tables

        def put(array: object) -> Tensor:
            return torch.as_tensor(np.ascontiguousarray(array), dtype=torch.int64, device=device)

        self.decoder = decoder
        self.classes, self.after, self.exits = put(tables.classes), put(tables.after), put(tables.exits)
        self.row, self.base, self.frame = put(tables.row), put(tables.base), put(tables.frame)
        self.block, self.caps = put(tables.block), put(decoder.caps)
        self.distance, self.to_close = put(tables.distance), put(tables.to_close)
        self._lists: dict[AllowSet, Tensor] = {}

    def step(self, states: Tensor, ids: Tensor) -> Tensor:
        """The states behind one token a row; int64, shape (rows,)."""
        self._check()
        machine = states >> _SHIFT
        after = self.after[self.row[machine], self.classes[ids]]
        inner = self.exits[self.frame[machine], (-1 - after).clamp(min=0)]
        then = torch.where(after >= 0, self.base[machine] + after, inner)
        ok, left, inside = self._budgets(states, machine, then)
        return torch.where(ok, then << _SHIFT | left << _BLOCK_BITS | inside, DEAD_STATE)

    def bias(self, states: Tensor) -> Tensor:
        """0 for allowed ids and -inf for all others, to be added to logits; float32, shape (rows, vocabulary)."""
        self._check()
        machine = (states >> _SHIFT)[:, None]
        after = self.after[self.row[machine[:, 0]]]
        inner = self.exits[self.frame[machine[:, 0]]].gather(1, (-1 - after).clamp(min=0))
        then = torch.where(after >= 0, self.base[machine] + after, inner)
        ok = self._budgets(states[:, None], machine, then)[0]
        by_class = torch.where(ok, 0.0, -torch.inf)
        return by_class[:, self.classes]

    def mask_(self, logits: Tensor, states: Sequence[int]) -> Tensor:
        """Set the logits of refused ids to -inf, in place, writing only what has to change; shape (rows, vocabulary).

        For states that the host knows, as integers; the quicker way on a CPU.
        """
        if len(logits) != len(states):
            raise ValueError(f"{len(logits)} rows of logits, {len(states)} states")
        if logits.device.type == "cpu" and logits.dtype in _NUMPY and not logits.requires_grad:
            self._mask_numpy(logits, states)
            return logits
        for row, state in zip(logits, states, strict=True):
            found = self.decoder.allow(int(state))
            ids = self.list_of(found)
            if found.only is None:
                row.index_fill_(0, ids, -torch.inf)
            else:
                kept = row[ids]
                row.fill_(-torch.inf)
                row[ids] = kept
        return logits

    def _mask_numpy(self, logits: Tensor, states: Sequence[int]) -> None:
        """The same through NumPy, whose calls take a fraction of torch's; only torch fills whole rows faster."""
        rows = logits.numpy()
        allow, one = self.decoder.allow, len(rows) == 1
        for i, state in enumerate(states):
            found, row = allow(int(state)), rows[i]
            if found.only is None:
                row[found.places] = -_INF
            else:
                kept = row[found.places]
                (logits if one else logits[i]).fill_(-_INF)
                row[found.places] = kept

    def _check(self) -> None:
        if not self.decoder.bodies.whole:
            raise ValueError("states that llguidance reads are numbered on the host: use `mask_` here, and `next` of the decoder")

    def list_of(self, found: AllowSet) -> Tensor:
        """The shorter list of an allow set, as a tensor."""
        ids = self._lists.get(found)
        if ids is None:
            if len(self._lists) >= 1 << 13:
                self._lists.clear()
            ids = self._lists[found] = torch.as_tensor(found.places, device=self.classes.device)
        return ids

    def _budgets(self, states: Tensor, machine: Tensor, then: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Whether the next states fit into the budgets, and these behind the token."""
        left, inside = states >> _BLOCK_BITS & ENDLESS, states & UNBOUNDED
        some = left > 0
        left = torch.where(left == ENDLESS, left, left - 1)
        block = self.block[then]
        within = torch.where(self.block[machine] == NO_BLOCK, self.caps[block], torch.where(inside == UNBOUNDED, inside, inside - 1))
        within = torch.where(block == NO_BLOCK, UNBOUNDED, within)
        fits = (block == NO_BLOCK) | (self.to_close[then] <= within)
        return some & (then != DEAD_STATE) & (self.distance[then] <= left) & fits, left, within
