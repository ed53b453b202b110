"""Hands units to what can run them: processes of this machine, Slurm, or any shell.

Units are written as `--units` reads them, for those that know nothing but commands.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

# Launchers that hand the work on and return; `local` waits for it.
HANDING = ("slurm", "shell")
LAUNCHERS = ("local", *HANDING)


def ranges(numbers: Iterable[int]) -> str:
    """Returns numbers as ranges, smallest first.

    >>> ranges([7, 0, 1, 2, 9, 10])
    '0-2,7,9-10'
    """
    ordered = sorted(set(numbers))
    begins = [b for a, b in pairwise([-2, *ordered]) if b != a + 1]
    ends = [a for a, b in pairwise([*ordered, ordered[-1] + 2]) if b != a + 1] if ordered else []
    texts = (f"{a}-{b}" if a != b else f"{a}" for a, b in zip(begins, ends, strict=True))
    return ",".join(texts)


def blocks(units: Sequence[int], most: int) -> list[Sequence[int]]:
    """Returns the units in at most `most` pieces, in their order; sizes differ by one at most."""
    pieces = min(most, len(units))
    cuts = [len(units) * n // pieces for n in range(pieces + 1)] if pieces else []
    return [units[a:b] for a, b in pairwise(cuts)]
