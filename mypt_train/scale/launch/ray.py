"""Runs units on a Ray cluster: the one that RAY_ADDRESS names, or one of this machine.

Input: a function of a unit's number, and how many at a time. Ray only places units on machines:
which is tried again is for `queue` to say, so that a unit is counted the same by every launcher.
The machines of the cluster need this package.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

from mypt_cli.errors import UsageError
from mypt_train.scale.launch.queue import Ended


class Ray:
    """An engine of Ray tasks, which call `do` with the number of a unit, one processor each.

    `slots` 0 takes all processors of the cluster. Raises UsageError without the package `ray`, or
    if the cluster does not answer.
    """

    def __init__(self, do: Callable[[int], object], slots: int = 0) -> None:
        try:
            ray: Any = import_module("ray")
        except ImportError:
            raise UsageError("the launcher ray needs: pip install 'mypt-tags[ray]'") from None
        self._ray, self._mine = ray, not ray.is_initialized()
        if self._mine:
            address = os.environ.get("RAY_ADDRESS", "local")
            options = {"num_cpus": slots or os.cpu_count()} if address == "local" else {}
            try:
                ray.init(address, log_to_driver=False, logging_level="error", **options)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise UsageError(f"RAY_ADDRESS {address}: no Ray cluster: {error}") from None
        self.slots = slots or int(ray.cluster_resources().get("CPU", 1))

        def task(unit: int) -> object:  # Ray takes a function, and a partial is none
            return do(unit)

        self._task = ray.remote(num_cpus=1, max_retries=0)(task)
        self._running: dict[Any, int] = {}

    def __enter__(self) -> Ray:
        return self

    def __exit__(self, *_: object) -> None:
        for running in self._running:
            self._ray.cancel(running, force=True)
        if self._mine:
            self._ray.shutdown()

    def start(self, unit: int) -> None:
        self._running[self._task.remote(unit)] = unit

    def ended(self) -> Ended:
        [done, *_], _ = self._ray.wait(list(self._running))
        unit = self._running.pop(done)
        try:
            return Ended(unit, self._ray.get(done))
        except self._ray.exceptions.RayTaskError as error:
            return Ended(unit, error=f"{type(error.cause).__name__}: {error.cause}")
        except self._ray.exceptions.RayError as error:
            name = type(error).__name__
            return Ended(unit, error=f"its process was killed, or its machine is gone ({name})")
