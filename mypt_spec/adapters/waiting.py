"""Holds the calls of a conversation that have no result yet.

A conversation may have thousands of calls in one turn: looking through all of them for each result
takes time with the square of their number.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterator
from itertools import count
from typing import Generic, TypeVar

Call = TypeVar("Call")


class Waiting(Generic[Call]):
    """Calls without a result, in order; the first one with a key is found at once."""

    def __init__(self) -> None:
        self._of: dict[Hashable, deque[tuple[int, Call]]] = defaultdict(deque)
        self._open: set[int] = set()
        self._numbers = count()

    def add(self, call: Call, *keys: Hashable) -> None:
        """Adds a call, which has these keys."""
        number = next(self._numbers)
        self._open.add(number)
        for key in keys:
            self._of[key].append((number, call))

    def first(self, key: Hashable) -> Call | None:
        """Returns the first call with a key, if there is one."""
        found = self._of[key]
        while found and found[0][0] not in self._open:
            found.popleft()
        return found[0][1] if found else None

    def take(self, key: Hashable) -> Call | None:
        """Returns the first call with a key, which waits no longer."""
        call = self.first(key)
        if call is not None:
            self._open.remove(self._of[key].popleft()[0])
        return call

    def all(self, key: Hashable) -> Iterator[Call]:
        """Yields the calls with a key, in order."""
        return (call for number, call in self._of[key] if number in self._open)
