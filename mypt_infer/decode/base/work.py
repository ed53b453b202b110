"""Lets whoever waits for a compile look at it while it runs, and stop it.

Input: a function that raises to stop. Loops of a compile call `step`; after so many steps the
function is called, in the thread of the compile. Without one, a compile is not disturbed.

>>> looks = []
>>> with watched(lambda: looks.append(1)):
...     for _ in range(3 * EACH):
...         step()
>>> len(looks)
3
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EACH = 64  # steps between two looks; one takes from a microsecond to some hundred


class _Thread(threading.local):
    count = 0
    look: Callable[[], None] | None = None


_thread = _Thread()


def step() -> None:
    """Counts a step of a compile in this thread."""
    _thread.count += 1
    if _thread.count % EACH == 0 and _thread.look is not None:
        _thread.look()


@contextmanager
def watched(look: Callable[[], None]) -> Iterator[None]:
    """Calls a function every so many steps of this thread."""
    before, _thread.look = _thread.look, look
    try:
        yield
    finally:
        _thread.look = before
