"""Whether time grows with the data and not with its square."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

PER_DOUBLING = 2.6  # of processor time; in proportion is 2, a square is 4
LOOKS = 5  # a busy machine disturbs some, and only a square fails in all


def seconds(do: Callable[[], object]) -> float:
    """Returns the processor time that a call takes, without that of the garbage collector."""
    gc.disable()
    try:
        before = time.process_time()
        do()
        return time.process_time() - before
    finally:
        gc.enable()


def in_proportion(do: Callable[[int], object], n: int) -> bool:
    """Returns whether a call with four times the data takes time in proportion."""
    return any(
        seconds(lambda: do(4 * n)) < PER_DOUBLING**2 * seconds(lambda: do(n)) for _ in range(LOOKS)
    )
