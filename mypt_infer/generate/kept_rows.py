"""Masks logits step after step into rows that are kept, so that most of a row is written only once.

Input: logits on the host and states. Output: the logits with -inf for refused ids.

Theory of operation. To mask a row of logits in place where few ids are allowed is to write all of
it. Inside calls nearly each step is one, so a batch in calls writes its logits whole at each step.
Here a row is kept that is -inf but for the few logits that were put into it last: the next step
takes these back and puts its own. A row in which most ids are allowed has to be copied, which takes
twice as long as to mask it in place, so a step in which that would be slower is masked in place.

    logits of a row        kept at step 1 {2, 5}      kept at step 2 {0}
    3 1 4 1 5 9 2          -  -  4  -  -  9  -        3  -  -  -  -  -  -

`write` always puts into the rows, for callers that must not change the logits.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mypt_infer.decode.base.allow import TOGETHER, AllowSet, places_of
from mypt_infer.generate.device import DeviceDecoder, array_of, refusal

_LINE = 64  # bytes that a processor reads and writes together
_IN_A_LINE = 16  # logits of that size; a row with as many ids in each line is filled at once
_LEAST = 1 << 17  # lines, 8 MB: what is less lies in a cache, and takes less time than the choice
# Says how many tensors there are on the same memory; no public name of torch does. A weak reference
# to what was handed out ends while a part of it is held. One to an array that torch borrowed does
# not, but then no tensor may be kept here, and only a tensor counts writes. Without this name, no
# memory is used twice.
_TENSORS: Any = getattr(torch._C, "_storage_Use_Count", None)


class KeptRows:
    """Masks the rows of one loop, by one decoder or several, one after the other.

    The rows take as much memory as the logits.
    """

    def __init__(self) -> None:
        self._rows: Tensor | None = None
        self._version = -1  # of the rows, as this object left them
        self._alone = -1  # the tensors on their memory, while nobody else has one
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
        if len(logits) != len(states):
            raise ValueError(f"{len(logits)} rows of logits, {len(states)} states")
        if len(states) == 1:
            return tensors.apply_(logits, states)
        sets = tensors.decoder.allow_each(states)
        if self._worth(sets, logits.shape[1] * logits.element_size() / _LINE):
            try:
                return self.write(logits, sets)
            except (TypeError, RuntimeError):  # on another device, or of a type that NumPy lacks
                self._version = -1
        return tensors.apply_(logits, states)

    @property
    def free(self) -> bool:
        """Returns whether nobody has a tensor that `write` returned, or a part of one."""
        return self._rows is None or (_TENSORS and _tensors(self._rows) == self._alone)

    def write(self, logits: Tensor, sets: Sequence[AllowSet], *, ids: int | None = None) -> Tensor:
        """Returns rows of this object: logits of allowed ids, -inf for others; (rows, vocabulary).

        `sets` has the allow set of each row; logits from `ids` on are refused, too. Raises
        TypeError or RuntimeError for logits of which no array can be made.
        """
        source = array_of(logits)
        rows = self._ready(logits)
        out, self._version = array_of(rows), -1  # a step that does not end leaves nothing known
        refuse = refusal(out)
        out[self._at, self._ids] = refuse
        few: list[int] = []
        for row, allow_set in enumerate(sets):
            before = self._last.pop(row, None)
            if allow_set.only is None or len(allow_set.only) * _IN_A_LINE > out.shape[1]:
                allow_set.write(out[row], source[row], refuse, ids)
                self._last[row] = allow_set
                continue
            if before is not None:
                out[row, slice(None) if before.only is None else before.places] = refuse
            if len(allow_set.only) <= TOGETHER:
                few.append(row)
            else:
                out[row, allow_set.places] = source[row, allow_set.places]
                self._last[row] = allow_set
        self._at, self._ids = places_of(few, [sets[row] for row in few])
        out[self._at, self._ids] = source[self._at, self._ids]
        self._version = rows._version
        return rows[: len(sets)]

    def _worth(self, sets: Sequence[AllowSet], lines: float) -> bool:
        """Returns whether to write into the rows takes less time than to mask the logits.

        Time is that of memory, so lines of it are counted: a line that is filled is written, one
        of which a part is written is read before, one that is copied is read from another place.
        Less than `_LEAST` of them is not worth it: 8 rows of 200,000 logits are masked in place.
        """
        here = there = 0.0
        for row, allow_set in enumerate(sets):
            parts = min(lines, len(allow_set.listed))
            if allow_set.only is None:
                here += 2 * parts
                there += 2 * lines
                continue
            here += lines + 2 * parts
            before = self._last.get(row)
            # Of each id, a line is read, and two are written in part: where it is, where one was.
            there += min(5 * parts, lines + 2 * parts)
            there += lines if before is not None and before.only is None else 0.0
        return there + _LEAST < here

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
            self._alone = _tensors(rows) if _TENSORS else -1
        if self._version != rows._version:
            rows.fill_(-torch.inf)
            self._at, self._ids = places_of((), ())
            self._last.clear()
        return rows


def _tensors(rows: Tensor) -> int:
    return int(_TENSORS(rows.untyped_storage()._cdata))
