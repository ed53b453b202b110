"""Holds what the decoder answers with: allow sets, and the errors of budgets and refused ids."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.compile.vocab import Ints


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

    Such states are kept within a bound of bytes, the youngest and all that these come from.
    """


@dataclass(frozen=True, eq=False)
class AllowSet:
    """The ids that may come next, as the shorter of two sorted lists: `only` or all but `refused`.

    `places` is the same list in the integer type that NumPy indexes fastest with.
    """

    count: int
    only: Ints | None
    refused: Ints | None
    places: npt.NDArray[np.intp] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self,
            "places",
            np.asarray(self.refused if self.only is None else self.only, dtype=np.intp),
        )

    def has(self, token: int) -> bool:
        """Returns whether an id is among them."""
        listed = self.refused if self.only is None else self.only
        assert listed is not None
        at = int(np.searchsorted(listed, token))
        return (at < len(listed) and int(listed[at]) == token) == (self.only is not None)

    @property
    def size(self) -> int:
        """Returns the bytes that it takes, about."""
        return 3 * self.places.nbytes // 2 + 256
