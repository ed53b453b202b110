"""Answers which ids may follow in a row of a leaf, where only the exits differ from place to place.

Input: the rows of leaves by classes of tokens, and which exits are open. Output: AllowSets.

Theory of operation. Of all ids that may follow in free content, nearly all stay in it: `the` within
a JSON string, whatever string that is. What depends on the place are the few ids that leave the
content: `", "` may follow only where another member may. So a row is read once for each dialect:
which ids stay, and through which exit the others leave. At a place, the open exits say which of
these join, and places with the same open exits share one set. The first visit of a place then takes
as long as a look at some thousand ids, whatever the size of the vocabulary.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.base.allow import AllowSet
from mypt_infer.decode.base.vocab import Ints
from mypt_spec.memo import Memo

# The most rows and sets that are kept, and the bytes of each.
_MOST_ROWS, _ROOM = 4096, 8 << 20


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
        self._rows = Memo[int, Row](_MOST_ROWS, room=_ROOM)
        self._sets = Memo[tuple[int, bytes], AllowSet](_MOST_ROWS, room=_ROOM)

    def row(self, number: int) -> Row:
        row = self._rows.entries.get(number)
        if row is None:
            row = self._read_row(number)
            self._rows.keep(number, row, row.ids.nbytes + row.exit.nbytes + 500)
        return row

    def allow(self, number: int, is_open: npt.NDArray[np.bool_]) -> AllowSet:
        """Returns the ids that may follow in a row; `is_open` says so of each of its exits."""
        key = number, is_open.tobytes()
        allow_set = self._sets.entries.get(key)
        if allow_set is None:
            row = self.row(number)
            joins = np.append(is_open, not row.dense)[row.exit]
            if row.dense:
                refused = row.ids[~joins]
                allow_set = AllowSet(len(self._classes) - len(refused), None, refused)
            else:
                only = row.ids[joins]
                allow_set = AllowSet(len(only), only, None)
            self._sets.keep(key, allow_set, allow_set.size)
        return allow_set

    def _read_row(self, number: int) -> Row:
        row = self._after[number]
        reached, columns = np.unique(row[row >= 0]), np.unique(-1 - row[row < -1])
        after = row[self._classes]
        stays = after >= 0
        dense = bool(2 * np.count_nonzero(stays) > len(stays))
        ids = np.flatnonzero(~stays if dense else after != -1).astype(np.int32)
        column = -1 - after[ids]
        exit_ = np.where(column > 0, np.searchsorted(columns, column), -1)
        return Row(reached, columns, dense, ids, exit_.astype(np.int32))
