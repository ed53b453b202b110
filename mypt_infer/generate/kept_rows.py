"""Masks logits step after step into rows that are kept, so that most of a row is written only once.

Input: logits on the host and states. Output: the logits with -inf for refused ids.

Theory of operation. To mask a row of logits in place where few ids are allowed is to write all of
it. Inside calls nearly each step is one, so a batch in calls writes its logits whole at each step.
Here a row is kept that is -inf but for the few logits that were put into it last: the next step
takes these back and puts its own. A row in which most ids are allowed has to be copied, which takes
twice as long as to mask it in place, so a step in which that would be slower is masked in place.

    logits of a row        kept at step 1 {2, 5}      kept at step 2 {0}
    3 1 4 1 5 9 2          -  -  4  -  -  9  -        3  -  -  -  -  -  -
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mypt_infer.decode.allow_set import TOGETHER, AllowSet, places_of
from mypt_infer.generate.device import DeviceDecoder

# What each takes, in times of reading a row: to copy a row and mask it, or to put few ids into it.
_COPY, _PUT = 2.4, 0.1
_IN_A_LINE = 16  # logits that share a line of the processor's cache


class KeptRows:
    """Masks the rows of one loop, by one decoder or several, one after the other.

    The rows take as much memory as the logits.
    """

    def __init__(self) -> None:
        self._rows: Tensor | None = None
        self._version = -1  # of the rows, as this object left them
        # Which logits are in the rows: by row and id where they are few, sets by row where not.
        self._at, self._ids = places_of((), ())
        self._last: dict[int, AllowSet] = {}

    def mask(self, tensors: DeviceDecoder, logits: Tensor, states: Sequence[int]) -> Tensor:
        """Returns the logits with -inf for refused ids, (rows, vocabulary).

        `states` are of the decoder of `tensors`, one a row.

        The result is `logits`, masked in place, or rows that belong to this object: valid until the
        next call, and to be written to by operations of torch alone, which are noticed and cost as
        much as the rows.
        """
        try:
            source = logits.numpy()
        except (TypeError, RuntimeError):  # on another device, or of a type that NumPy lacks
            return tensors.apply_(logits, states)
        if len(source) != len(states):
            raise ValueError(f"{len(source)} rows of logits, {len(states)} states")
        sets = tensors.decoder.allow_each(states)
        if len(sets) == 1 or not self._worth(sets, source.shape[1]):
            return tensors.apply_(logits, states)
        rows = self._ready(logits)
        out, self._version = rows.numpy(), -1  # a step that does not end leaves nothing known
        out[self._at, self._ids] = -np.inf
        few = list[int]()
        for row, found in enumerate(sets):
            before = self._last.pop(row, None)
            if not _is_few(found):
                found.write(out[row], source[row])
                self._last[row] = found
                continue
            if before is not None:
                out[row, slice(None) if before.only is None else before.places] = -np.inf
            few.append(row)
        self._at, self._ids = places_of(few, [sets[row] for row in few])
        out[self._at, self._ids] = source[self._at, self._ids]
        self._version = rows._version
        return rows[: len(sets)]

    def _worth(self, sets: Sequence[AllowSet], size: int) -> bool:
        """Returns whether to write into the rows takes less time than to mask the logits."""
        here = there = 0.0
        for row, found in enumerate(sets):
            if found.only is None:
                here += min(1.0, len(found.listed) * _IN_A_LINE / size)
                there += _COPY
            else:
                here += 1.0
                before = self._last.get(row) if _is_few(found) else found
                there += _PUT if before is None or before.only is not None else 1.0 + _PUT
                there += 0.0 if _is_few(found) else 1.0
        return there < here

    def _ready(self, logits: Tensor) -> Tensor:
        """Returns the rows, made anew if they do not fit the logits or were written to."""
        rows = self._rows
        if (
            rows is None
            or len(rows) < len(logits)
            or rows.shape[1] != logits.shape[1]
            or rows.dtype is not logits.dtype
        ):
            with torch.inference_mode(False):  # a tensor of that mode does not count writes
                rows = self._rows = torch.empty_like(logits, memory_format=torch.contiguous_format)
            self._version = -1
        if self._version != rows._version:
            rows.fill_(-torch.inf)
            self._at, self._ids = places_of((), ())
            self._last.clear()
        return rows


def _is_few(found: AllowSet) -> bool:
    """Returns whether so few ids are allowed that those of all such rows are put in together."""
    return found.only is not None and len(found.only) <= TOGETHER
