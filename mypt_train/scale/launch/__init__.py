"""Runs units in processes of this machine, or writes the commands that run them anywhere."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

LAUNCHERS = ("local", "shell")


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


def commands(command: str, units: Sequence[int], jobs: int, folder: str) -> Iterator[str]:
    """Yields `jobs` commands that run all units together, or one for each unit if that is fewer.

    `command` is what the numbers of units follow. The commands run in `folder`; what they run
    differs by one unit at most.
    """
    pieces = min(jobs, len(units))
    for n in range(pieces):
        block = units[len(units) * n // pieces : len(units) * (n + 1) // pieces]
        yield f"cd {shlex.quote(folder)} && {command} {ranges(block)}"
