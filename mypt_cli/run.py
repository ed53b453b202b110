"""Has what commands say about their run, and their threads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def saying(prog: str, *, quiet: bool) -> Callable[[str], None]:
    """Returns what prints a line about the run, unless it is to be quiet."""

    def say(text: str) -> None:
        if not quiet:
            print(f"{prog}: {text}", file=sys.stderr)

    return say


def in_threads(
    work: Callable[[_Item], _Result], items: Iterable[_Item], most: int = 16
) -> Iterator[_Result]:
    """Yields what `work` returns for each item, in order; `most` of them wait at a time."""
    from concurrent.futures import ThreadPoolExecutor  # not loaded at every start

    with ThreadPoolExecutor(most) as threads:
        yield from threads.map(work, items)


def message_of(error: Exception) -> str:
    """Returns the message of an error for people; that of the system names its file."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)
