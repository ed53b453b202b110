"""Starts the processes of a test with default signal handlers, and ends them whatever happens.

A process inherits the signals that its parent ignores. pytest ignores SIGINT where a shell has
started it in the background, under nohup, and in some CI runners; a child that a test interrupts
would then run on. And a child that outlives its test is reported where Python frees the object, in
the middle of any other test.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

# How Python begins when nothing is ignored; SIGHUP and SIGQUIT are unknown to Windows.
_HANDLERS: dict[int, Any] = {signal.SIGINT: signal.default_int_handler}
_HANDLERS |= {
    getattr(signal, name): signal.SIG_DFL
    for name in ("SIGTERM", "SIGHUP", "SIGQUIT")
    if hasattr(signal, name)
}


@contextmanager
def default_signals() -> Iterator[None]:
    """Lets processes that are started inside begin with the default handlers.

    A new program keeps ignoring what its parent ignored, but a signal that its parent handles goes
    back to the default. So this process handles the ignored signals for a moment. Resetting them in
    the child instead, by `preexec_fn`, is unsafe as soon as this process has threads.
    """
    ignored = [n for n in _HANDLERS if signal.getsignal(n) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, _HANDLERS[number])
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Starts a process with default handlers; the caller hands it to `end`."""
    with default_signals():
        return subprocess.Popen(command, **options)


def end(process: subprocess.Popen[Any]) -> None:
    """Kills a process if it still runs, with its group if it leads one, and closes its pipes."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            if hasattr(os, "killpg") and os.getpgid(process.pid) == process.pid:
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
    with suppress(BrokenPipeError), process:  # waits, and closes what was opened for it
        pass


@contextmanager
def child(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Runs a process with default handlers; at the end it is killed if it still runs.

    `options` are those of `subprocess.Popen`.
    """
    process = start(command, **options)
    try:
        yield process
    finally:
        end(process)
