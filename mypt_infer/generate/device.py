"""Masks logits on the device where they are.

Input: logits of a row, and what is allowed. Output: logits of allowed ids alone. To keep states and
tables on the device, too, took more time there than to copy what is allowed, on a GPU as on a CPU,
except for 64 rows in a compiled loop.
"""

import torch
from torch import Tensor

from mypt_infer.decode.base.allow import AllowSet
from mypt_spec.memo import Memo

_REFUSED = -float("inf")
# The number of allow sets that are kept as tensors, and the most bytes of these.
_MAX_ENTRIES, _ROOM = 1 << 13, 16 << 20


class Masks:
    """Masks rows on one device, where it keeps the lists of allow sets."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = device
        self._lists = Memo[AllowSet, Tensor](_MAX_ENTRIES, room=_ROOM)

    def mask(self, row: Tensor, allow_set: AllowSet) -> None:
        """Sets the logits of refused ids in a row to -inf, in place."""
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
