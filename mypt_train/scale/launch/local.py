"""Runs units in processes of this machine.

Input: a function of a unit's number, and how many processes. Each process is a pool by itself, so
that when one is killed, by the system for want of memory or by anyone, the unit is known that it
ran; a new process takes its place.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_all_start_methods, get_context
from tempfile import gettempdir

from mypt_cli.errors import UsageError
from mypt_cli.run import end_with_parent
from mypt_train.scale.launch.queue import Ended


class Local:
    """An engine of `slots` processes, which call `do` with the number of a unit."""

    def __init__(self, do: Callable[[int], object], slots: int) -> None:
        self.slots, self._do = slots, do
        self._free: list[ProcessPoolExecutor] = []
        self._running: dict[Future[object], tuple[int, ProcessPoolExecutor]] = {}

    def __enter__(self) -> Local:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        for pool in [*self._free, *(pool for _, pool in self._running.values())]:
            pool.shutdown(wait=kind is None, cancel_futures=True)

    def start(self, unit: int) -> None:
        """Raises UsageError if no process can be started in this environment."""
        pool = self._free.pop() if self._free else _process()
        try:
            future = pool.submit(self._do, unit)
        except OSError as error:
            if "AF_UNIX" not in str(error):
                raise
            raise UsageError(
                f"{gettempdir()}: processes meet by a socket in the folder for temporary files, "
                "whose name is too long for that; set TMPDIR to a shorter one"
            ) from None
        self._running[future] = unit, pool

    def ended(self) -> Ended:
        future = next(iter(wait(self._running, return_when=FIRST_COMPLETED).done))
        unit, pool = self._running.pop(future)
        error = future.exception()
        if isinstance(error, BrokenProcessPool):
            pool.shutdown()
            return Ended(unit, error="its process was killed, possibly out of memory")
        self._free.append(pool)
        if error is not None:
            return Ended(unit, error=f"{type(error).__name__}: {error}")
        return Ended(unit, future.result())


def _process() -> ProcessPoolExecutor:
    """Returns a pool of one process, which is no copy of this one: that has threads by now."""
    method = "forkserver" if "forkserver" in get_all_start_methods() else "spawn"
    context = get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(["mypt_train.data.units"])
    return ProcessPoolExecutor(1, context, initializer=_begin)


def _begin() -> None:
    """Ends this process with the one that started it, and at Ctrl-C without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    end_with_parent()
