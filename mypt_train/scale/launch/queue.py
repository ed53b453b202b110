"""Keeps an engine busy with units until each is done or set aside.

Input: numbers of units, and an engine that runs some at a time. Output: what became of each
attempt. A unit that fails is tried again after those that wait, so that the others go on and
whatever made it fail has time to pass; after the third failure it is set aside.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

# How often a unit is tried before it is set aside.
ATTEMPTS = 3


class Engine(Protocol):
    """Runs units, at most `slots` of them at a time."""

    @property
    def slots(self) -> int: ...

    def start(self, unit: int) -> None:
        """Begins a unit; returns at once."""

    def ended(self) -> Ended:
        """Waits for the next unit that ends."""


MakeEngine = Callable[[Callable[[int], object]], AbstractContextManager[Engine]]
"""Returns an engine that calls a function with the number of each unit."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A unit that was run: what its function returned, or what went wrong, "" if nothing did."""

    unit: int
    result: Any = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Attempt(Ended):
    """One run of a unit. `number` counts its attempts from 1, `last` says that no other comes."""

    number: int = 1
    last: bool = True


def attempts(units: Iterable[int], engine: Engine, *, most: int = ATTEMPTS) -> Iterator[Attempt]:
    """Runs all units, each up to `most` times; yields each attempt as it ends."""
    waiting, running = deque(units), 0
    failed: Counter[int] = Counter()
    while waiting or running:
        while waiting and running < engine.slots:
            engine.start(waiting.popleft())
            running += 1
        ended = engine.ended()
        running -= 1
        number = failed[ended.unit] + 1
        if ended.error:
            failed[ended.unit] += 1
        again = bool(ended.error) and number < most
        if again:
            waiting.append(ended.unit)
        yield Attempt(ended.unit, ended.result, ended.error, number, not again)
