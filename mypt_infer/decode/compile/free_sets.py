"""Answers, for tables, which ids may follow a state while no budget counts."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.base.allow import AllowSet
from mypt_infer.decode.base.vocab import Ints
from mypt_infer.decode.compile.nfa import NO_BLOCK
from mypt_infer.decode.compile.token_table import FAR

if TYPE_CHECKING:
    from mypt_infer.decode.compile.tables import Tables

# So many steps are looked at one by one; of more, arrays are quicker.
_FEW = 64


class FreeSets:
    """Answers for tables what may follow a state while no budget counts.

    `caps` are the budgets that blocks begin with, by block; `unbounded` is no budget.
    """

    def __init__(self, tables: Tables, caps: npt.NDArray[np.int64], unbounded: int) -> None:
        self.tables, self._caps, self._unbounded = tables, caps, unbounded

    def free(self, state: int) -> tuple[int, int, AllowSet] | None:
        """Returns (left, block_left, allow_set): valid while more than these many tokens remain.

        In all and in the block. None where some of what stays in free content is refused, and
        outside of blocks where no content is.
        """
        tables = self.tables
        outside = tables.lists[0][state] == NO_BLOCK
        if not tables.frame[state]:
            return None if outside else self._needs_in_list(state)
        distance = self._entered if outside else self._within
        number = int(tables.row[state])
        row = tables.rows.row(number)
        stay = tables.base[state] + row.reached
        least = int(distance[stay].max(initial=0))
        if least >= FAR:
            return None
        leave = tables.exits[tables.frame[state]][row.columns]
        beyond = distance[leave]
        is_open = beyond < FAR
        least = max(least, int(beyond[is_open].max(initial=0)))
        allow_set, inside = tables.rows.allow(number, is_open), 0
        if not outside:
            close = tables.to_close
            inside = max(close[stay].max(initial=0), close[leave[is_open]].max(initial=0))
        return least, int(inside), allow_set

    @cached_property
    def _entered(self) -> Ints:
        """Returns the distance of each state from one outside of blocks; FAR if it is refused."""
        return self._where(self._caps[self.tables.block])

    @cached_property
    def _within(self) -> Ints:
        """Returns the distance of each state from one in a block; FAR if it is refused."""
        return self._where(self._unbounded)

    def _where(self, cap: int | npt.NDArray[np.int64]) -> Ints:
        tables, distance = self.tables, self.tables.distance
        over = (distance < FAR) & (tables.block != NO_BLOCK) & (tables.to_close > cap)
        return np.where(over, FAR, distance).astype(np.int32) if over.any() else distance

    def _needs_in_list(self, state: int) -> tuple[int, int, AllowSet]:
        """Returns what `free` does, in a block where no content is.

        Most such states have a handful of steps, which Python's lists tell in a fraction of the
        time that NumPy takes to begin.
        """
        edges, (_, distance, to_close, _) = self.tables.edges, self.tables.lists
        begin, end = edges.first[state : state + 2].tolist()
        if end - begin <= _FEW:
            after = edges.then[begin:end].tolist()
            least = max([distance[then] for then in after], default=0)
            if least < FAR:
                inside = max([to_close[then] for then in after], default=0)  # 0 outside of blocks
                return least, inside, AllowSet(end - begin, edges.token[begin:end], None)
        ids, after_states = self.tables.listed(state)
        least = int(self.tables.distance[after_states].max(initial=0))
        inside = int(self.tables.to_close[after_states].max(initial=0))
        return least, inside, AllowSet(len(ids), ids, None)
