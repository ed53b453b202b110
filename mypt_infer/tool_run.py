"""Runs one function of a tool: in this thread, or in another one.

Input: a function and its arguments. Output: what it returned, or what it raised, as a `Finished`.
Whoever waits may stop waiting: a thread cannot be ended, so it continues alone. Threads are
daemons, so the interpreter's end waits for none.
"""

import contextlib
import contextvars
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from math import inf
from typing import Any, NamedTuple

# The seconds after which `threaded` looks again whether it is to stop.
_POLL = 0.05
_Function = Callable[[Any], Any]


def time_limit(name: str, value: float | None) -> float | None:
    """Returns a limit in seconds; None, no limit, for infinity and for more than 292 years.

    Raises ValueError for what is no number above 0.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ValueError(f"{name} is {value}, expected a number above 0")
    return None if value > threading.TIMEOUT_MAX else value


class Finished(NamedTuple):
    """What a function returned, or what it raised."""

    value: Any = None
    raised: BaseException | None = None


class Unfinished(Exception):
    """A function is no longer waited for."""


def here(function: _Function, argument: Any) -> Finished:
    """Runs a function in this thread. Raises KeyboardInterrupt, which is the user's here."""
    try:
        return Finished(function(argument))
    except KeyboardInterrupt:
        raise
    except BaseException as raised:
        return Finished(raised=raised)


def threaded(
    function: _Function, argument: Any, *, seconds: float | None, stopped: Callable[[], bool]
) -> Finished:
    """Runs a function in another thread. Raises Unfinished after `seconds`, or when `stopped()`."""
    outcome: Future[Finished] = Future()

    def run() -> None:
        try:
            finished = Finished(function(argument))
        except BaseException as raised:
            finished = Finished(raised=raised)
        outcome.set_result(finished)

    context = contextvars.copy_context()
    try:
        threading.Thread(target=context.run, args=(run,), daemon=True, name="tool").start()
    except RuntimeError as raised:  # there are too many threads
        return Finished(raised=raised)
    end = time.monotonic() + (inf if seconds is None else seconds)
    while True:
        with contextlib.suppress(TimeoutError):
            return outcome.result(min(_POLL, end - time.monotonic()))
        if stopped() or time.monotonic() >= end:
            raise Unfinished
