"""Stops a fuzzer in time, wherever it is.

The driver looks at the clock between two examples. What takes seconds for one example (growth.py)
looks in between, too, by `look()`.
"""

from __future__ import annotations

import math
import time

now = time.monotonic
_latest = math.inf


class TimeIsUp(BaseException):
    """Ends a search. It is no Exception, so nobody takes it for a broken invariant."""


def stop_at(latest: float) -> None:
    """Sets the time, by `now()`, after which even an example that has begun is given up."""
    global _latest  # noqa: PLW0603
    _latest = latest


def look() -> None:
    """Raises TimeIsUp after the time of `stop_at`."""
    if now() > _latest:
        raise TimeIsUp
