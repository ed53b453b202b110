"""Holds the calls of a conversation that have no result yet, and finds those that never get one.

A conversation may have thousands of calls in one turn: looking through all of them for each result
takes time with the square of their number.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator
from itertools import count
from typing import Generic, TypeVar

from mypt_spec.bodies.json_body import calls_in, value_in
from mypt_spec.episode import Part, Place
from mypt_spec.findings import Finding

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


def unanswered(said: Iterable[tuple[str, Part, Place]], body: str) -> Iterator[Finding]:
    """Yields findings where there are more results than calls, or fewer.

    `said` are the pieces of a conversation, with the place of the block of each; `body` is the kind
    of body of its calls.
    """
    waiting: list[tuple[str, Place]] = []
    answered = False
    for piece, part, block in said:
        if piece == "result":
            if not waiting and answered:
                what = "every call before it has its result"
                place = block if part.at == Place() else part.at
                yield Finding("MYP310", what, *place, help="delete it")
            waiting, answered = waiting[1:], True
        elif piece != "tools":
            if answered:
                yield from _missing(waiting)
            waiting, answered = ([] if answered else waiting), False
            waiting += _asked(part, body) if piece == "call" else []
    if answered:
        yield from _missing(waiting)


def _asked(part: Part, body: str) -> list[tuple[str, Place]]:
    """Returns the names and places of the calls in a part."""
    try:
        calls = calls_in(value_in(part.text, body), body, part.attrs)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return [("", part.at)]  # said where its body is read
    return [(call.name, part.at) for call in calls]


def _missing(waiting: list[tuple[str, Place]]) -> Iterator[Finding]:
    for name, place in waiting:
        hint = "put its result after those of the other calls"
        yield Finding("MYP311", f"the call of {name!r} has no result", *place, help=hint)
