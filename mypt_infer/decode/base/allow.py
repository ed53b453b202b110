"""Holds what the decoder answers with: allow sets, and the errors of budgets and refused ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from weakref import ref

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.base.vocab import Ints

Row = npt.NDArray[np.generic]
States = npt.NDArray[np.int64]
_REFUSE = np.float32(-np.inf)  # a number of NumPy is written faster than one of Python


class BudgetError(ValueError):
    """A budget that no legal ending fits in; `minimum` is the least that would do."""

    def __init__(self, message: str, minimum: int) -> None:
        super().__init__(message)
        self.minimum = minimum


class Refused(ValueError):
    """An id that was allowed has no ending after it, or none that fits into the budget.

    The engine "llguidance" proves an id when it is taken. The id is not allowed in that state any
    more, so draw again.
    """


class ForgottenState(LookupError):
    """A state in a body or in a list of calls, of which nothing is known any more.

    Such states are kept within a bound of bytes: the youngest, those that are held
    (`Decoder.hold`), and all that these come from.
    """


@dataclass(eq=False)
class Holder:
    """States that are not forgotten while this object lives, or until its `with` block ends.

    `states` is the list that its owner gave, who changes it as rows go on; None is no state.
    """

    states: Sequence[int | None]

    def __enter__(self) -> Holder:
        return self

    def __exit__(self, *_: object) -> None:
        self.states = ()


class Holders:
    """All that holds states of one decoder. Threads may share it."""

    def __init__(self) -> None:
        self._refs: list[ref[Holder]] = []
        self._lock = Lock()

    def add(self, states: Sequence[int | None] | Holder) -> Holder:
        """Returns an object that holds the states of a list."""
        holder = states if isinstance(states, Holder) else Holder(states)
        with self._lock:
            self._refs = [r for r in self._refs if r() is not None] + [ref(holder)]
        return holder

    @property
    def states(self) -> list[int]:
        holders = [held() for held in self._refs]
        return [s for h in holders if h is not None for s in tuple(h.states) if s is not None]


@dataclass(frozen=True, eq=False)
class AllowSet:
    """The ids that may come next, as the shorter of two sorted lists: `only`, or `refused`.

    The other one is None.
    """

    count: int
    only: Ints | None
    refused: Ints | None

    @classmethod
    def of_flags(cls, flags: npt.NDArray[np.bool_]) -> AllowSet:
        """Returns the ids whose flags are set; `flags` has one for each id of the vocabulary."""
        count = int(np.count_nonzero(flags))
        if 2 * count <= len(flags):
            return cls(count, np.flatnonzero(flags).astype(np.int32), None)
        return cls(count, None, np.flatnonzero(~flags).astype(np.int32))

    @property
    def listed(self) -> Ints:
        """Returns the one of the two lists that there is."""
        ids = self.refused if self.only is None else self.only
        assert ids is not None
        return ids

    @cached_property
    def places(self) -> npt.NDArray[np.intp]:
        """Returns the same list in the integer type that NumPy indexes fastest with."""
        return self.listed.astype(np.intp)

    def has(self, token: int) -> bool:
        """Returns whether an id is among them."""
        at = int(np.searchsorted(self.listed, token))
        is_listed = at < len(self.listed) and int(self.listed[at]) == token
        return is_listed == (self.only is not None)

    @property
    def size(self) -> int:
        """Returns the bytes that it takes, about, with `places`."""
        return 12 * len(self.listed) + 256

    def write(self, row: Row) -> None:
        """Writes -inf for refused ids into a row of logits."""
        if self.only is None:
            row[self.places] = _REFUSE
            return
        values = row[self.places]
        row.fill(_REFUSE)
        row[self.places] = values

    def write_bits(self, row: npt.NDArray[np.uint8], vocabulary: int) -> None:
        """Writes a bit for each id to zeros, 1 where allowed, lowest first."""
        byte, bit = self.places >> 3, (1 << (self.places & 7)).astype(np.uint8)
        if self.only is not None:
            np.bitwise_or.at(row, byte, bit)
            return
        row[: vocabulary >> 3] = 255
        row[vocabulary >> 3 : (vocabulary >> 3) + 1] = (1 << (vocabulary & 7)) - 1
        np.bitwise_and.at(row, byte, ~bit)


class Rows:
    """What is alike for all that says the allow set of each row of a batch."""

    @property
    def vocab_size(self) -> int:
        """Returns the number of ids."""
        raise NotImplementedError

    def allow_each(self, states: Sequence[int] | States) -> list[AllowSet]:
        """Returns the allow set of each row."""
        raise NotImplementedError

    def bias(self, states: Sequence[int] | States) -> npt.NDArray[np.float32]:
        """Returns 0 for allowed ids and -inf for others, to add to logits: (rows, vocabulary)."""
        out = np.zeros((len(states), self.vocab_size), dtype=np.float32)
        self.apply(out, states)
        return out

    def bitmask(self, states: Sequence[int] | States) -> Ints:
        """Returns a bit for each id, 1 where allowed, lowest first: int32, (rows, vocabulary / 32).

        Rounded up. The kernels of other libraries take it, and it is a 32nd of `bias` in size.
        """
        size = self.vocab_size
        out = np.zeros((len(states), -(-size // 32) * 4), dtype=np.uint8)
        for row, allow_set in zip(out, self.allow_each(states), strict=True):
            allow_set.write_bits(row, size)
        return out.view("<i4")

    def apply(self, logits: npt.NDArray[np.floating], states: Sequence[int] | States) -> None:
        """Sets the logits of refused ids to -inf, in place; shape (rows, vocabulary).

        Writes only what has to change. Raises TypeError, before anything is written, for what is no
        array.
        """
        sets = self.allow_each(states)
        if not isinstance(logits, np.ndarray):
            raise TypeError(
                f"logits are a {type(logits).__name__}, expected an array of numpy; of a tensor of "
                "torch pass `numpy()`, and elsewhere than on the CPU use mypt_infer.generate.device"
            )
        for row, allow_set in zip(logits, sets, strict=True):
            allow_set.write(row)
