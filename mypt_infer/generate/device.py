"""The decoder on tensors: a batch steps with static shapes and without a word to the host, so it
compiles as one graph.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mypt_infer.decode.compile.nfa import NO_BLOCK
from mypt_infer.decode.decoder import _BLOCK_BITS, _SHIFT, ENDLESS, UNBOUNDED, AllowSet, Decoder
from mypt_infer.decode.tables import DEAD_STATE
from mypt_spec.memo import Memo

_REFUSED = -float("inf")
_KEPT = 1 << 13  # allow sets as tensors
_PLACES, _FEW = (
    1 << 11,
    1 << 11,
)  # places that one row is masked in by the short way, and ids in each
# Of a place with more tokens left than this, in all and in the block: the type of logits; the ids
# that are refused, and -inf for each; or those that are allowed, and None.
_Ready = tuple[int, int, torch.dtype, Tensor, Tensor | None]


class DeviceDecoder:
    """`bias` and `step` of a Decoder for int64 tensors of its states, shape (rows,), on one device.

    A refused token leads to state 0, in which nothing is allowed, instead of an error: an error
    would have to ask the device.
    """

    def __init__(self, decoder: Decoder, device: torch.device | str = "cpu") -> None:
        tables = decoder.tables

        def put(array: object) -> Tensor:
            return torch.as_tensor(np.ascontiguousarray(array), dtype=torch.int64, device=device)

        self.decoder = decoder
        self.classes, self.after, self.exits = (
            put(tables.classes),
            put(tables.after),
            put(tables.exits),
        )
        self.place = put(np.stack([tables.row, tables.base, tables.frame, tables.block]))
        self.goal = put(np.stack([decoder.caps[tables.block], tables.distance, tables.to_close]))
        self._lists = Memo[AllowSet, Tensor](_KEPT)
        self._ready = Memo[int, _Ready](_PLACES)

    def step(self, states: Tensor, ids: Tensor) -> Tensor:
        """The states behind one token a row; int64, shape (rows,)."""
        self._check()
        row, base, frame, block = self.place.index_select(1, states >> _SHIFT)
        after = self.after[row, self.classes[ids]]
        inner = self.exits[frame, (-1 - after).clamp(min=0)]
        then = torch.where(after >= 0, base + after, inner)
        ok, left, within = self._budgets(states, block, then)
        inside = torch.where(self.goal[2][then] == 0, UNBOUNDED, within)  # no block is open
        return torch.where(ok, then << _SHIFT | left << _BLOCK_BITS | inside, DEAD_STATE)

    def bias(self, states: Tensor) -> Tensor:
        """0 for allowed ids and -inf for all others, to be added to logits; float32, shape (rows,
        vocabulary).
        """
        self._check()
        row, base, frame, block = self.place.index_select(1, states >> _SHIFT)
        after = self.after.index_select(0, row)  # several times as quick as by an index
        inner = self.exits.index_select(0, frame).gather(1, (-1 - after).clamp(min=0))
        then = torch.where(after >= 0, base[:, None] + after, inner)
        ok = self._budgets(states[:, None], block[:, None], then)[0]
        return torch.where(ok, 0.0, -torch.inf).index_select(1, self.classes)

    def apply_(self, logits: Tensor, states: Sequence[int]) -> Tensor:
        """Set the logits of refused ids to -inf, in place, writing only what has to change; shape
        (rows, vocabulary).

        For states that the host knows, as integers; the quicker way on a CPU.
        """
        if len(states) == 1:
            state, dtype = states[0], logits.dtype
            ready = self._ready.known.get(state >> _SHIFT)
            if ready is None or ready[2] is not dtype:
                ready = self._prepare(int(state), dtype)
            if (
                state >> _BLOCK_BITS & ENDLESS > ready[0]
                and state & UNBOUNDED > ready[1]
                and logits.shape[0] == 1
            ):
                if ready[4] is not None:
                    return logits.put_(ready[3], ready[4])
                kept = logits.take(ready[3])
                return logits.fill_(_REFUSED).put_(ready[3], kept)
        if logits.shape[0] != len(states):
            raise ValueError(f"{len(logits)} rows of logits, {len(states)} states")
        try:
            rows = logits.numpy()
        except (
            TypeError,
            RuntimeError,
        ):  # on another device, of a type that NumPy lacks, or part of a graph
            return self._mask_torch(logits, states)
        for row, state in zip(rows, states, strict=True):
            found = self.decoder.allow(state)
            if found.only is None:
                row[found.places] = _REFUSED
            else:
                kept = row[found.places]
                row[:] = _REFUSED
                row[found.places] = kept
        return logits

    def _prepare(self, state: int, dtype: torch.dtype) -> _Ready:
        """For a place in which few ids are refused, or few are allowed, these as tensors; kept for
        next time.
        """
        left, inside, found = self.decoder.free(state)
        few = len(found.places) <= _FEW
        ids = self.list_of(found) if few else self.classes[:0]
        values = (
            torch.full(ids.shape, _REFUSED, dtype=dtype, device=ids.device)
            if found.only is None
            else None
        )
        return self._ready.keep(
            state >> _SHIFT, (left if few else ENDLESS, inside, dtype, ids, values)
        )

    def _mask_torch(self, logits: Tensor, states: Sequence[int]) -> Tensor:
        for row, state in zip(logits, states, strict=True):
            found = self.decoder.allow(state)
            ids = self.list_of(found)
            if found.only is None:
                row.index_fill_(0, ids, _REFUSED)
            else:
                kept = row[ids]
                row.fill_(_REFUSED)
                row[ids] = kept
        return logits

    def _check(self) -> None:
        if not self.decoder.bodies.whole:
            raise ValueError(
                "some states inside calls are numbered on the host: use `apply_` here, and `next` "
                "of the decoder"
            )

    def list_of(self, found: AllowSet) -> Tensor:
        """The shorter list of an allow set, as a tensor."""
        ids = self._lists.known.get(found)
        if ids is None:
            ids = self._lists.keep(found, torch.as_tensor(found.places, device=self.classes.device))
        return ids

    def _budgets(
        self, states: Tensor, block: Tensor, then: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Whether the next states fit into the budgets, and what is then left in all and in the
        block. `block` is that of the states.

        State 0 is further from any end than there are tokens to count, and where none are left, -1
        are left behind.
        """
        left, inside = states >> _BLOCK_BITS & ENDLESS, states & UNBOUNDED
        left = torch.where(left == ENDLESS, left, left - 1)
        cap, distance, to_close = self.goal.index_select(1, then.flatten()).view(3, *then.shape)
        within = torch.where(
            block == NO_BLOCK, cap, torch.where(inside == UNBOUNDED, inside, inside - 1)
        )
        return (distance <= left) & (to_close <= within), left, within
