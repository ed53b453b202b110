"""Runs work on a template in a process of its own, within bounds of memory and time.

A template comes from a stranger, and the sandbox of Jinja limits neither: `"a" * 9999999999` is one
step of it. The process ends with the one that started it, whatever ends that one.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

MEMORY = 1 << 30  # bytes, beside what is loaded; where the system counts them (Linux)
SECONDS = 10  # of processor time, for each call
_TURN = 1.0  # seconds after which no further call of a batch begins
GROWS = "find the loop, power or multiplication that grows without a bound"  # advice
DEADLINE = 120  # seconds by the clock, where the system counts no processor time or is very busy
T = TypeVar("T")


class OutOfBoundsError(Exception):
    """Work was stopped; the message says at which bound."""


class Bounded(Generic[T]):
    """Calls a function in a process of its own, call after call, each within the bounds.

    `make(*args)` makes the function, in the new process, which starts with the first call. One that
    was stopped is followed by a new one. Belongs to one thread; a forked process starts its own.
    """

    def __init__(self, make: Callable[..., Callable[..., T]], *args: Any) -> None:
        self._make, self._args = make, args
        self._child: Any = None
        self._pipe: Connection | None = None
        self._owner = 0  # the process that has started it

    def __reduce__(self) -> Any:
        return Bounded, (self._make, *self._args)

    def __call__(self, *args: Any) -> T:
        """Returns what the function returns. Raises OutOfBoundsError, and what it raises."""
        (outcome,) = self.each([args])
        if isinstance(outcome, OutOfBoundsError):
            raise outcome
        return outcome

    def each(self, calls: Sequence[tuple[Any, ...]]) -> Iterator[T | OutOfBoundsError]:
        """Yields what the function returns for each of some calls, or where it was stopped.

        Calls are sent together. If one ends the process, those of its batch are made again, one by
        one. Raises what the function raises.
        """
        at, alone = 0, 0  # calls before `alone` are made one by one
        while at < len(calls):
            batch = calls[at : at + 1] if at < alone else calls[at:]
            try:
                outcomes = self._outcomes(batch)
            except OutOfBoundsError as error:
                if len(batch) > 1:
                    alone = at + len(batch)
                    continue
                outcomes = [(None, error)]
            for result, fault in outcomes:
                if isinstance(fault, OutOfBoundsError) and len(batch) > 1:
                    alone = at + 1  # what the others of the batch hold counted, too
                    break
                if fault is not None and not isinstance(fault, OutOfBoundsError):
                    raise fault
                yield result if fault is None else fault
                at += 1

    def _outcomes(self, calls: Sequence[tuple[Any, ...]]) -> list[tuple[Any, Exception | None]]:
        """Returns (result, exception) of the first call, and of others after it."""
        self.start()
        assert self._pipe is not None
        try:
            self._pipe.send(calls)
            if not self._pipe.poll(DEADLINE):
                raise OutOfBoundsError(f"{DEADLINE} seconds")
            outcomes: list[tuple[Any, Exception | None]] = self._pipe.recv()
        except (EOFError, OSError):
            self._child.join()
            exitcode = self._child.exitcode
            self.close()
            raise OutOfBoundsError(_reason(exitcode)) from None
        except BaseException:
            self.close()
            raise
        return outcomes

    def start(self) -> None:
        """Starts the process, unless it runs: it makes the function while this one goes on."""
        if self._pipe is not None and self._owner == os.getpid():
            return
        from multiprocessing import get_all_start_methods, get_context

        # A forked process has everything loaded.
        context = get_context("fork" if "fork" in get_all_start_methods() else "spawn")
        self._pipe, there = context.Pipe()
        self._owner = os.getpid()
        worker_args = (there, (MEMORY, SECONDS), self._make, self._args)
        self._child = context.Process(target=_work, args=worker_args, daemon=True)  # type: ignore[attr-defined]
        self._child.start()
        there.close()
        self._end = weakref.finalize(self, _end, self._child, self._pipe, self._owner)

    def close(self) -> None:
        """Ends the process."""
        if self._pipe is not None:
            self._end()
            self._pipe = None


def _end(child: Any, pipe: Connection, owner: int) -> None:
    """Ends a process, whose pipe those that were forked later hold open, unless it is another's."""
    if owner == os.getpid():
        child.kill()
        child.join()
    pipe.close()


def _reason(exitcode: int) -> str:
    """Returns which bound ended a process that sent nothing."""
    if exitcode == -getattr(signal, "SIGXCPU", 0):
        return f"{SECONDS} seconds of processor time"
    return f"what a process can do (exit status {exitcode})"


def _work(there: Connection, bounds: tuple[int, int], make: Callable[..., Any], args: Any) -> None:
    """Works in the new process, and sends (result, exception) for each call."""
    memory, seconds = bounds
    _bind(memory)
    work = None
    with suppress(Exception, MemoryError):  # the first call tries again, and reports it
        _allow(seconds)
        work = make(*args)
    while True:
        try:
            calls = there.recv()
        except (EOFError, OSError):
            return
        outcomes: list[tuple[Any, Exception | None]] = []
        begin = time.process_time()
        for call in calls:
            _allow(seconds)
            try:
                work = work or make(*args)
                outcomes.append((work(*call), None))
            except MemoryError:
                outcomes.append((None, OutOfBoundsError(f"{memory >> 20} MiB of memory")))
            except Exception as error:  # for the process that asked
                import traceback

                error.add_note(traceback.format_exc())
                outcomes.append((None, error))
            if outcomes[-1][1] or time.process_time() - begin > _TURN:
                break
        there.send(outcomes)


def end_with_parent() -> None:
    """Ends this process as soon as the one that started it has gone, however it went.

    What it writes has to be whole or not there: nothing is put in order.
    """
    from multiprocessing import parent_process
    from threading import Thread

    def watch() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _bind(memory: int) -> None:
    """Bounds the memory of this process, and lets it end with its parent."""
    for number in (signal.SIGINT, signal.SIGTERM):  # no handler of the parent, which ends it
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    end_with_parent()
    if sys.platform == "win32":
        return
    import resource

    _limit(resource.RLIMIT_CORE, 0)
    with suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:
        loaded = int(file.read().split()[0]) * resource.getpagesize()
        _limit(resource.RLIMIT_AS, loaded + memory)


def _allow(seconds: int) -> None:
    """Lets this process work for some seconds of processor time more."""
    if sys.platform != "win32":
        import resource

        _limit(resource.RLIMIT_CPU, math.ceil(time.process_time()) + seconds)


def _limit(which: int, limit: int) -> None:
    import resource

    hard = resource.getrlimit(which)[1]
    lower = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    with suppress(OSError, ValueError):
        resource.setrlimit(which, (lower, hard))
