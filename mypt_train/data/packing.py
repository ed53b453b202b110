"""Packs whole episodes into rows of one length: best fit in a bounded window.

Input: lengths with their indices. Output: rows, as lists of indices. Episodes are never cut, so a
model sees each from its first token; good packing keeps the padding small, which costs time in
training and teaches nothing.

Theory of operation. A sorted list holds the next `window` episodes by length. A row begins with the
longest of them, because the longest is the hardest to place. Then the longest episode that still
fits into the room left is added, found by bisection, until nothing fits. The list is refilled from
the input before each row. Each episode costs O(log window) to find and O(window) small moves to
insert, so the time is linear in the number of episodes; the memory is bounded by `window`. Of equal
lengths the earlier one is taken first, so the result depends on the input alone.

Four episodes of 5, 3, 4 and 2 tokens, in rows of 8. Episode 0 (5) begins the first row and leaves
room for 3 tokens, which episode 1 fills. Episode 2 (4) begins the second row, episode 3 (2) still
fits, and 2 tokens remain padding:

>>> list(pack([(5, 0), (3, 1), (4, 2), (2, 3)], 8))
[[0, 1], [2, 3]]
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from itertools import islice

# The number of episodes that are compared at a time.
WINDOW = 1 << 14


def pack(
    lengths: Iterable[tuple[int, int]], row: int, *, window: int = WINDOW
) -> Iterator[list[int]]:
    """Yields rows as sorted lists of indices; each index is in exactly one row.

    `lengths` are pairs (tokens, index); `row` is the number of tokens in a row. Raises ValueError
    for a length that is not 1 to `row`.
    """
    # (length, -index), sorted: from the end, the first of equal lengths comes first.
    pending: list[tuple[int, int]] = []
    source = iter(lengths)
    while True:
        for length, index in islice(source, window - len(pending)):
            if not 0 < length <= row:
                raise ValueError(f"item {index} has {length} tokens, a row holds 1 to {row}")
            insort(pending, (length, -index))
        if not pending:
            return
        length, index = pending.pop()
        indices, room = [-index], row - length
        while room and pending:
            at = bisect_right(pending, (room, 0)) - 1
            if at < 0:
                break
            length, index = pending.pop(at)
            indices.append(-index)
            room -= length
        yield sorted(indices)
