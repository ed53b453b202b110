"""Runs work on a template in a process of its own, within bounds of memory and time.

A template comes from a stranger, and the sandbox of Jinja limits neither: `"a" * 9999999999` is one
step of it. The process ends with the one that started it, whatever ends that one.
"""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from mypt_cli.run import end_with_parent

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

MEMORY = 1 << 30  # bytes, beside what is loaded; where the system counts them (Linux)
SECONDS = 10  # of processor time, for all conversations
DEADLINE = 120  # seconds by the clock, where the system counts no processor time or is very busy
T = TypeVar("T")


class OutOfBoundsError(Exception):
    """Work was stopped; the message says at which bound."""


def bounded(work: Callable[..., T], *args: Any) -> T:
    """Returns what `work` returns. Raises OutOfBoundsError, and what `work` raises."""
    from multiprocessing import get_all_start_methods, get_context

    # A forked process has everything loaded.
    context = get_context("fork" if "fork" in get_all_start_methods() else "spawn")
    here, there = context.Pipe(duplex=False)
    worker_args = (there, (MEMORY, SECONDS), work, args)
    child = context.Process(target=_work, args=worker_args, daemon=True)  # type: ignore[attr-defined]
    child.start()
    there.close()
    try:
        if not here.poll(DEADLINE):
            raise OutOfBoundsError(f"{DEADLINE} seconds")
        result, error = here.recv()
    except (EOFError, OSError):
        child.join()
        raise OutOfBoundsError(_reason(child.exitcode)) from None
    finally:
        child.kill()
        child.join()
        here.close()
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


def _reason(exitcode: int) -> str:
    """Returns which bound ended a process that sent nothing."""
    if exitcode == -getattr(signal, "SIGXCPU", 0):
        return f"{SECONDS} seconds of processor time"
    return f"what a process can do (exit status {exitcode})"


def _work(there: Connection, bounds: tuple[int, int], work: Callable[..., Any], args: Any) -> None:
    """Works in the new process, and sends (result, exception)."""
    _bind(*bounds)
    try:
        there.send((work(*args), None))
    except MemoryError:
        there.send((None, OutOfBoundsError(f"{bounds[0] >> 20} MiB of memory")))
    except Exception as error:  # for the process that asked
        error.add_note(traceback.format_exc())
        there.send((None, error))


def _bind(memory: int, seconds: int) -> None:
    """Sets the bounds of this process, and lets it end with its parent."""
    for number in (signal.SIGINT, signal.SIGTERM):  # no handler of the parent, which ends it
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    end_with_parent()
    if sys.platform == "win32":
        return
    import resource

    limits = {resource.RLIMIT_CPU: seconds, resource.RLIMIT_CORE: 0}
    with suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:
        limits[resource.RLIMIT_AS] = int(file.read().split()[0]) * resource.getpagesize() + memory
    for which, limit in limits.items():
        hard = resource.getrlimit(which)[1]
        lower = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(which, (lower, hard))
