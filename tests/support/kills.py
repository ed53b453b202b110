"""Kills runs at places that do not depend on the clock."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any


def steps_of(do: Callable[[], object]) -> int:
    """Returns how many functions a call calls."""
    count = 0

    def counting(*_: Any) -> None:
        nonlocal count
        count += 1

    sys.setprofile(counting)
    try:
        do()
    finally:
        sys.setprofile(None)
    return count


def is_killed(do: Callable[[], object], steps: int) -> bool:
    """Makes a call in a fork that is killed after so many steps; returns whether it came so far.

    A step is the beginning or the end of a function, as `steps_of` counts them. The processes that
    the fork has started count by themselves, and all of them are killed with the first that is.
    """
    child = os.fork()
    if not child:
        left = steps

        def counting(*_: Any) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                os.killpg(0, signal.SIGKILL)

        status = 1
        try:
            os.setsid()
            sys.setprofile(counting)
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
