"""Runs the decoder on tensors, for a batch of rows on one device.

Input: states, int64, (rows,). Output: biases for logits and next states. Shapes are static and
nothing is sent to the host, so a step compiles as one graph.

Some states are numbered on the host as they come up: inside lists of calls, whose ids are to be
distinct (call_ids.py), and inside bodies that llguidance reads. No tensor holds them. The decoder
itself answers for a row that is at such a state, or steps into a call, and for no other row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mypt_infer.decode.base.allow import REFUSE, Rows, write_rows
from mypt_infer.decode.batch import BatchDecoder
from mypt_infer.decode.compile.nfa import CALLING, NO_BLOCK
from mypt_infer.decode.compile.tables import DEAD_STATE
from mypt_infer.decode.decoder import AllowSet, Decoder
from mypt_infer.decode.limits import BLOCK_BITS, BUDGET_BITS, ENDLESS, UNBOUNDED
from mypt_spec.memo import Memo

_REFUSED = -float("inf")
_BITS = np.int16(-128)  # -inf as the bits of bfloat16
# The number of allow sets that are kept as tensors.
_MAX_ENTRIES = 1 << 13
# The most bytes of these.
_ROOM = 16 << 20


def array_of(logits: Tensor) -> Rows:
    """Returns logits as an array on the same memory; of bfloat16, which NumPy lacks, the bits.

    Raises TypeError or RuntimeError for those on another device, of another type that NumPy lacks,
    or that are part of a graph.
    """
    try:
        return logits.numpy()
    except TypeError:
        if logits.dtype is not torch.bfloat16:
            raise
        return logits.view(torch.int16).numpy()


def refusal(rows: Rows) -> np.generic:
    """Returns -inf as an array of logits has it."""
    return _BITS if rows.dtype.kind == "i" else REFUSE


class DeviceDecoder:
    """A Decoder for tensors of its states: int64, (rows,), on one device.

    A refused token leads to state 0, in which nothing is allowed, and raises no error, because an
    error would have to ask the device. Where the decoder's engine numbers states on the host
    (`decoder.engine.tables_only` is False), each call waits for the device once, and for the host
    as long as it takes to answer for the rows in calls; such a call does not compile as one graph.
    """

    def __init__(self, decoder: Decoder, device: torch.device | str = "cpu") -> None:
        tables = decoder.tables

        def put(array: object, dtype: torch.dtype = torch.int32) -> Tensor:
            return torch.as_tensor(np.ascontiguousarray(array), dtype=dtype, device=device)

        self.decoder = decoder
        self.classes = put(tables.classes, torch.int64)
        self.after, self.exits = put(tables.after), put(tables.exits)
        # By state: its row, base, frame, block and edges; the cap of its block, its distances.
        edges = tables.edges
        begin, count = edges.first[:-1], np.diff(edges.first)
        self._parts = put(
            np.stack([tables.row, tables.base, tables.frame, tables.block, begin, count])
        )
        # The host answers for what follows a step to these states: calls, and holes.
        hosted = tables.block == CALLING
        hosted[list(tables.holes)] = True
        self._hosted = put(hosted, torch.bool)
        self._needs = put(np.stack([decoder.caps[tables.block], tables.distance, tables.to_close]))
        # Each list of edges can be read to the length of the longest.
        self._nth = torch.arange(max(1, int(count.max())), device=device)
        over = (0, len(self._nth))
        self._edge_token = put(np.pad(edges.token, over))
        self._edge_then = put(np.pad(edges.then, over))
        self._lists = Memo[AllowSet, Tensor](_MAX_ENTRIES, room=_ROOM)

    @property
    def nbytes(self) -> int:
        """Returns the bytes of the tensors, about, without those of the decoder."""
        tensors = [value for value in vars(self).values() if isinstance(value, Tensor)]
        return sum(t.nbytes for t in tensors) + self._lists.nbytes

    def step(self, states: Tensor, ids: Tensor) -> Tensor:
        """Returns the states after one token for each row: int64, (rows,)."""
        tables_only = self.decoder.engine.tables_only
        table_states = states if tables_only else self._in_tables(states)
        row, base, frame, block, begin, count = self._parts_of(table_states)
        after = self.after[row, self.classes[ids]].long()
        inner = self.exits[frame, (-1 - after).clamp(min=0)]
        tokens, thens = self._edges(begin, count)
        targets = torch.where(tokens == ids[:, None], thens, DEAD_STATE).sum(1)
        then = torch.where(after >= 0, base + after, inner + targets)
        ok, remaining, within = self._budgets(table_states, block, then)
        inside = torch.where(self._needs[2][then] == 0, UNBOUNDED, within)  # no block is open
        out = torch.where(ok, then << BUDGET_BITS | remaining << BLOCK_BITS | inside, DEAD_STATE)
        if not tables_only:
            rows = ((table_states != states) | self._hosted[then]).nonzero().flatten().tolist()
            if rows:
                pairs = zip(states[rows].tolist(), ids[rows].tolist(), strict=True)
                out[rows] = out.new_tensor([self._next(*pair) for pair in pairs])
        return out

    def bias(self, states: Tensor) -> Tensor:
        """Returns biases for logits, 0 for allowed ids and -inf for others.

        The result is float32, (rows, vocabulary).
        """
        tables_only = self.decoder.engine.tables_only
        table_states = states if tables_only else self._in_tables(states)
        row, base, frame, block, begin, count = self._parts_of(table_states)
        after = self.after.index_select(0, row).long()  # several times as fast as an index
        inner = self.exits.index_select(0, frame).gather(1, (-1 - after).clamp(min=0))
        then = torch.where(after >= 0, base[:, None] + after, inner)
        tokens, thens = self._edges(begin, count)
        then = then.scatter_add(1, self.classes[tokens.clamp(min=0)], thens.to(then.dtype))
        ok = self._budgets(table_states[:, None], block[:, None], then)[0]
        out = torch.where(ok, 0.0, -torch.inf).index_select(1, self.classes)
        if not tables_only:
            rows = (table_states != states).nonzero().flatten().tolist()
            if rows:
                rows_of_bias = torch.from_numpy(self.decoder.bias(states[rows].tolist()))
                out[rows] = rows_of_bias.to(out.device)
        return out

    def _parts_of(self, states: Tensor) -> tuple[Tensor, ...]:
        """Returns row, base, frame, block, begin and count of each state, int64, (rows,)."""
        return self._parts.index_select(1, states >> BUDGET_BITS).long().unbind()

    def _edges(self, begin: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        """Returns (tokens, states): the edges of each row, then -1 and 0; (rows, longest list)."""
        at = begin[:, None] + self._nth
        real = self._nth < count[:, None]
        tokens = torch.where(real, self._edge_token[at], -1)
        return tokens, torch.where(real, self._edge_then[at], DEAD_STATE)

    def _in_tables(self, states: Tensor) -> Tensor:
        """Returns the states that the tables hold, and state 0 in the place of others."""
        return torch.where(states >> BUDGET_BITS < self.decoder.tables.size, states, DEAD_STATE)

    def _next(self, state: int, token: int) -> int:
        try:
            return self.decoder.next(state, token)
        except ValueError:
            return DEAD_STATE

    def apply_(self, logits: Tensor, states: Sequence[int]) -> Tensor:
        """Sets the logits of refused ids to -inf, in place; returns the logits, (rows, vocabulary).

        `states` are integers on the host. On a CPU this is the fastest way, because it writes only
        what has to change.
        """
        if logits.shape[0] != len(states):
            raise ValueError(f"{len(logits)} rows of logits, {len(states)} states")
        sets = self.decoder.allow_each(states)
        try:
            rows = array_of(logits)
        except (TypeError, RuntimeError):
            for row, allow_set in zip(logits, sets, strict=True):
                self.mask_row(row, allow_set)
            return logits
        write_rows(rows, sets, refuse=refusal(rows))
        return logits

    def mask_row(self, row: Tensor, allow_set: AllowSet) -> None:
        """Sets the logits of refused ids in one row to -inf, by operations of torch alone."""
        ids = self.list_of(allow_set)
        if allow_set.only is None:
            row.index_fill_(0, ids, _REFUSED)
        else:
            values = row[ids]
            row.fill_(_REFUSED)
            row[ids] = values

    def list_of(self, allow_set: AllowSet) -> Tensor:
        """Returns the shorter list of an allow set as a tensor."""
        ids = self._lists.entries.get(allow_set)
        if ids is None:
            ids = torch.as_tensor(allow_set.places, device=self.classes.device)
            self._lists.keep(allow_set, ids, ids.nbytes + allow_set.size)
        return ids

    def _budgets(
        self, states: Tensor, block: Tensor, then: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns (fits, left, block_left) of the next states.

        `fits`: whether the next states fit into the budgets. `block` is that of `states`. State 0
        never fits: its distance is larger than any budget.
        """
        remaining, inside = states >> BLOCK_BITS & ENDLESS, states & UNBOUNDED
        remaining = torch.where(remaining == ENDLESS, remaining, remaining - 1)
        cap, distance, to_close = self._needs.index_select(1, then.flatten()).view(3, *then.shape)
        within = torch.where(
            block == NO_BLOCK, cap, torch.where(inside == UNBOUNDED, inside, inside - 1)
        )
        return (distance <= remaining) & (to_close <= within), remaining, within


class DeviceBatch:
    """A BatchDecoder for tensors of its states: int64, (rows,), on one device.

    `of[row]` is the DeviceDecoder of a row. Rows that share a decoder are one pass on its tensors.
    """

    def __init__(self, batch: BatchDecoder, device: torch.device | str = "cpu") -> None:
        tensors = {id(decoder): DeviceDecoder(decoder, device) for decoder, _ in batch.groups}
        self.of = [tensors[id(decoder)] for decoder in batch.decoders]
        self._groups = [(self.of[r[0]], torch.tensor(r, device=device)) for _, r in batch.groups]

    def step(self, states: Tensor, ids: Tensor) -> Tensor:
        """Returns the states after one token for each row: int64, (rows,)."""
        if len(self._groups) == 1:
            return self.of[0].step(states, ids)
        out = torch.empty_like(states)
        for tensors, rows in self._groups:
            out[rows] = tensors.step(states[rows], ids[rows])
        return out

    def bias(self, states: Tensor) -> Tensor:
        """Returns biases for logits: float32, (rows, vocabulary)."""
        if len(self._groups) == 1:
            return self.of[0].bias(states)
        out = torch.empty(len(states), len(self.of[0].classes), device=states.device)
        for tensors, rows in self._groups:
            out[rows] = tensors.bias(states[rows])
        return out
