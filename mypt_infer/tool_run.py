"""Runs one function of a tool: in this thread, in another one, or in an event loop.

Input: a function and its arguments. Output: what it returned, or what it raised, as a `Finished`.
Whoever waits may stop waiting: a thread cannot be ended, so it continues alone; a coroutine is
cancelled. Threads are daemons, so neither `asyncio.run` nor the interpreter's end waits for one.
"""

import asyncio
import contextlib
import contextvars
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass
from math import inf
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Finished:
    """What a function returned, or what it raised."""

    value: Any = None
    raised: BaseException | None = None


class Unfinished(Exception):
    """A function is no longer waited for."""


def here(function: _Function, argument: Any) -> Finished:
    """Runs a function in this thread. Raises KeyboardInterrupt, which is the user's here."""
    try:
        value = function(argument)
        return _completed(value) if inspect.isawaitable(value) else Finished(value)
    except KeyboardInterrupt:
        raise
    except BaseException as raised:
        return Finished(raised=raised)


def threaded(
    function: _Function, argument: Any, *, seconds: float | None, stopped: Callable[[], bool]
) -> Finished:
    """Runs a function in another thread. Raises Unfinished after `seconds`, or when `stopped()`."""
    run = _Thread(function, argument)
    end = time.monotonic() + (inf if seconds is None else seconds)
    try:
        while True:
            with contextlib.suppress(TimeoutError):
                return run.outcome.result(min(_POLL, end - time.monotonic()))
            if stopped() or time.monotonic() >= end:
                raise Unfinished
    except BaseException:
        run.abandon()
        raise


async def awaited(
    function: _Function, argument: Any, *, seconds: float | None, stopped: Callable[[], bool]
) -> Finished:
    """Runs a coroutine function in this event loop, any other function in a thread.

    Raises Unfinished if it has not ended after so many seconds, or when `stopped()`. When this is
    cancelled it ends at once, whatever the function does about that. Raises KeyboardInterrupt if a
    coroutine does.
    """
    waiting: asyncio.Future[Finished]
    run = None
    if inspect.iscoroutinefunction(function):
        waiting = asyncio.ensure_future(_outcome_of(function(argument)))
    else:
        run = _Thread(function, argument)
        waiting = asyncio.wrap_future(run.outcome)
    end = time.monotonic() + (inf if seconds is None else seconds)
    try:
        while True:
            timeout = max(0, min(_POLL, end - time.monotonic()))
            if (await asyncio.wait({waiting}, timeout=timeout))[0]:
                break
            if stopped() or time.monotonic() >= end:
                raise Unfinished
    finally:
        if not waiting.done():
            waiting.cancel()
            if run is not None:
                run.abandon()
    outcome = waiting.result()
    if run is None and isinstance(outcome.raised, KeyboardInterrupt):
        raise outcome.raised
    return outcome


class _Thread:
    """A function that runs in a thread of its own."""

    def __init__(self, function: _Function, argument: Any) -> None:
        self.outcome: Future[Finished] = Future()
        self.outcome.set_running_or_notify_cancel()
        self._task: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._abandoned = False
        context = contextvars.copy_context()
        thread = threading.Thread(
            target=context.run, args=(self._run, function, argument), daemon=True, name="tool"
        )
        try:
            thread.start()
        except RuntimeError as raised:  # there are too many threads
            self.outcome.set_result(Finished(raised=raised))

    def _run(self, function: _Function, argument: Any) -> None:
        try:
            value = function(argument)
            outcome = Finished(value)
            if inspect.isawaitable(value):
                outcome = asyncio.run(self._noted(value))
        except BaseException as raised:
            outcome = Finished(raised=raised)
        self.outcome.set_result(outcome)

    async def _noted(self, value: Awaitable[Any]) -> Finished:
        task = asyncio.ensure_future(_outcome_of(value))
        self._task = asyncio.get_running_loop(), task
        if self._abandoned:
            task.cancel()
        return await task

    def abandon(self) -> None:
        """Cancels a coroutine; a function continues, and its result is ignored."""
        self._abandoned = True
        if self._task is not None:
            loop, task = self._task
            with contextlib.suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(task.cancel)


async def _outcome_of(value: Awaitable[Any]) -> Finished:
    """Returns what an awaitable gives or raises, also what would end the event loop."""
    try:
        return Finished(await value)
    except BaseException as raised:
        return Finished(raised=raised)


def _completed(value: Awaitable[Any]) -> Finished:
    """Runs an awaitable in an event loop of its own, in another thread if this one has a loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_interruptible(value))
    return threaded(lambda _: value, None, seconds=None, stopped=lambda: False)


async def _interruptible(value: Awaitable[Any]) -> Finished:
    """Returns the outcome of an awaitable; Ctrl-C cancels this task, and is no outcome."""
    task = asyncio.ensure_future(_outcome_of(value))
    try:
        await asyncio.wait({task})
    finally:
        task.cancel()
    outcome = task.result()
    if isinstance(outcome.raised, KeyboardInterrupt):
        raise outcome.raised
    return outcome
