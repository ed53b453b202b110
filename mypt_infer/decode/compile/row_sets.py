"""Answers which ids may follow in a row of a leaf, where only the exits differ from place to place.

Input: the rows of leaves by classes of tokens, and which exits are open. Output: AllowSets.

Theory of operation. Of all ids that may follow in free content, nearly all stay in it: `the` within
a JSON string, whatever string that is. What depends on the place are the few ids that leave the
content: `", "` may follow only where another member may. So a row is read once for each dialect:
which ids stay, and through which exit the others leave. At a place, the open exits say which of
these join, and places with the same open exits share one set. The first visit of a place then takes
as long as a look at some thousand ids, whatever the size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.allow_set import AllowSet
from mypt_infer.decode.compile.nfa import NO_BLOCK
from mypt_infer.decode.compile.token_table import FAR
from mypt_infer.decode.compile.vocab import Ints
from mypt_spec.memo import Memo

if TYPE_CHECKING:
    from mypt_infer.decode.tables import Tables

# The most rows and sets that are kept, and the bytes of each.
_KEPT, _ROOM = 4096, 8 << 20
# So many steps are looked at one by one; of more, arrays are quicker.
_FEW = 64


class Row(NamedTuple):
    """What all ids do in one state of a leaf.

    `reached`: the states of the leaf after ids that stay. `columns`: the exits that are left
    through, sorted. `ids`, sorted: in a `dense` row those that do not stay, else those that are not
    refused. `exit`: for each of them the place of its exit in `columns`; -1 for an id that stays,
    or in a dense row for one that is refused.
    """

    reached: Ints
    columns: Ints
    dense: bool
    ids: Ints
    exit: Ints


class RowSets:
    """The rows of some leaves.

    `after`: int32, shape (rows, classes): 0 or more is a state of the leaf, -1 is refused, and
    -1 - c leaves through exit c. `classes`: int32, (vocabulary,).
    """

    def __init__(self, after: Ints, classes: Ints) -> None:
        self._after, self._classes = after, classes
        self._rows = Memo[int, Row](_KEPT, room=_ROOM)
        self._sets = Memo[tuple[int, bytes], AllowSet](_KEPT, room=_ROOM)

    def row(self, number: int) -> Row:
        """Returns what all ids do in a row."""
        found = self._rows.known.get(number)
        if found is None:
            found = self._read(number)
            self._rows.keep(number, found, found.ids.nbytes + found.exit.nbytes + 500)
        return found

    def allow(self, number: int, opened: npt.NDArray[np.bool_]) -> AllowSet:
        """Returns the ids that may follow in a row; `opened` says so of each of its exits."""
        key = number, opened.tobytes()
        found = self._sets.known.get(key)
        if found is None:
            row = self.row(number)
            joins = np.append(opened, not row.dense)[row.exit]
            if row.dense:
                refused = row.ids[~joins]
                found = AllowSet(len(self._classes) - len(refused), None, refused)
            else:
                only = row.ids[joins]
                found = AllowSet(len(only), only, None)
            self._sets.keep(key, found, found.size)
        return found

    def _read(self, number: int) -> Row:
        row = self._after[number]
        reached, columns = np.unique(row[row >= 0]), np.unique(-1 - row[row < -1])
        after = row[self._classes]
        stays = after >= 0
        dense = bool(2 * np.count_nonzero(stays) > len(stays))
        ids = np.flatnonzero(~stays if dense else after != -1).astype(np.int32)
        column = -1 - after[ids]
        exit_ = np.where(column > 0, np.searchsorted(columns, column), -1)
        return Row(reached, columns, dense, ids, exit_.astype(np.int32))


class FreeSets:
    """Answers for tables what may follow a state while no budget counts.

    `caps` are the budgets that blocks begin with, by block; `unbounded` is no budget.
    """

    def __init__(self, tables: Tables, caps: npt.NDArray[np.int64], unbounded: int) -> None:
        self.tables, self._caps, self._unbounded = tables, caps, unbounded

    def of(self, state: int) -> tuple[int, int, AllowSet] | None:
        """Returns (left, block_left, allow_set): valid while more than these many tokens remain.

        In all and in the block. None where some of what stays in free content is refused, and
        outside of blocks where no content is.
        """
        tables = self.tables
        outside = tables.lists[0][state] == NO_BLOCK
        if not tables.frame[state]:
            return None if outside else self._listed(state)
        distance = self._entered if outside else self._within
        number = int(tables.row[state])
        row = tables.rows.row(number)
        stay = tables.base[state] + row.reached
        left = int(distance[stay].max(initial=0))
        if left >= FAR:
            return None
        leave = tables.exits[tables.frame[state]][row.columns]
        beyond = distance[leave]
        opened = beyond < FAR
        left = max(left, int(beyond[opened].max(initial=0)))
        found, inside = tables.rows.allow(number, opened), 0
        if not outside:
            close = tables.to_close
            inside = max(close[stay].max(initial=0), close[leave[opened]].max(initial=0))
        return left, int(inside), found

    def of_structure(
        self, states: Collection[int]
    ) -> Iterator[tuple[int, tuple[int, int, AllowSet]]]:
        """Yields a state and what `of` has of it, for many states at once; of one state, nothing.

        Only for states of the tables, in blocks where no content is, and where none of the steps
        is refused.
        """
        tables, edges = self.tables, self.tables.edges
        found = np.array([s for s in states if s < tables.size], dtype=np.intp)
        if len(found) < 2:
            return
        found = found[(tables.frame[found] == 0) & (tables.block[found] != NO_BLOCK)]
        found = found[edges.first[found] < edges.first[found + 1]]
        if not len(found):
            return
        begin = edges.first[found]
        count = edges.first[found + 1] - begin
        starts = np.cumsum(count) - count
        then = edges.then[np.repeat(begin - starts, count) + np.arange(count.sum())]
        left = np.maximum.reduceat(tables.distance[then], starts)
        inside = np.maximum.reduceat(tables.to_close[then], starts)
        columns = (found, left, inside, begin, count)
        for state, most, closing, first, many in zip(*(c.tolist() for c in columns), strict=True):
            if most < FAR:
                ids = edges.token[first : first + many]
                yield state, (most, closing, AllowSet(many, ids, None))

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

    def _listed(self, state: int) -> tuple[int, int, AllowSet]:
        """Returns what `of` does, in a block where no content is.

        Most such states have a handful of steps, which Python's lists tell in a fraction of the
        time that NumPy takes to begin.
        """
        edges, (_, distance, to_close, _) = self.tables.edges, self.tables.lists
        begin, end = edges.first[state : state + 2].tolist()
        if end - begin <= _FEW:
            after = edges.then[begin:end].tolist()
            left = max([distance[then] for then in after], default=0)
            if left < FAR:
                inside = max([to_close[then] for then in after], default=0)  # 0 outside of blocks
                return left, inside, AllowSet(end - begin, edges.token[begin:end], None)
        ids, found = self.tables.listed(state)
        left = int(self.tables.distance[found].max(initial=0))
        inside = int(self.tables.to_close[found].max(initial=0))
        return left, inside, AllowSet(len(ids), ids, None)
