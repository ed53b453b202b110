"""Whole episodes into rows of one length: best fit in a bounded window."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator

WINDOW = 1 << 14  # episodes looked at at once


def pack(
    lengths: Iterable[tuple[int, int]], row: int, *, window: int = WINDOW
) -> Iterator[list[int]]:
    """Rows as lists of indices. `lengths` are `(length, index)`, each length at most `row`; every
    index is in one row.

    The longest of the window begins a row; what fits best is added until nothing fits. Within a
    row, the order of the input.
    Raises ValueError for a length that no row holds.
    """
    held: list[
        tuple[int, int]
    ] = []  # (length, -index): of equal lengths the first comes first from the end
    source = iter(lengths)
    more = True
    while more or held:
        while more and len(held) < window:
            item = next(source, None)
            if item is None:
                more = False
                break
            if not 0 < item[0] <= row:
                raise ValueError(f"item {item[1]} has {item[0]} tokens, a row holds 1 to {row}")
            insort(held, (item[0], -item[1]))
        if not held:
            return
        length, index = held.pop()
        found, room = [-index], row - length
        while room and held:
            at = bisect_right(held, (room, 0)) - 1
            if at < 0:
                break
            length, index = held.pop(at)
            found.append(-index)
            room -= length
        yield sorted(found)
