"""Kills runs between two calls that change files, so that a kill does not depend on the clock."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

# Functions of Python that change files, or open, flush and close them.
_CHANGES = frozenset([
    "close", "flush", "fsync", "link", "mkdir", "open", "remove", "rename", "replace", "rmdir", "truncate",
    "unlink", "write", "writelines",
])  # fmt: skip


def _counting(reach: Callable[[], None]) -> Callable[[FrameType, str, Any], None]:
    """Returns a profile function that tells before and after each call that changes files."""

    def profile(_: FrameType, event: str, function: Any) -> None:
        if event in ("c_call", "c_return") and getattr(function, "__name__", "") in _CHANGES:
            reach()

    return profile


def steps_of(do: Callable[[], object]) -> int:
    """Returns at how many steps a call can be killed: before and after each change of a file."""
    count = 0

    def reach() -> None:
        nonlocal count
        count += 1

    sys.setprofile(_counting(reach))
    try:
        do()
    finally:
        sys.setprofile(None)
    return count


def is_killed(do: Callable[[], object], steps: int) -> bool:
    """Makes a call in a fork that is killed after so many steps; returns whether it came so far.

    The processes that the fork has started count by themselves, and all of them are killed with the
    first that is.
    """
    child = os.fork()
    if not child:
        left, status = steps, 1

        def reach() -> None:
            nonlocal left
            left -= 1
            if left < 0:
                os.killpg(0, signal.SIGKILL)

        try:
            os.setsid()
            sys.setprofile(_counting(reach))
            do()
            status = 0
        except Exception:
            traceback.print_exc()
        finally:
            sys.setprofile(None)
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL), "the run ended with an error"
    return status != 0
