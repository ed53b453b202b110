"""Lets a run end where it can go on: Ctrl-C and SIGTERM wait for the end of a step.

The trainer asks after each step whether it is to end. A later signal ends it at once, as ever.
"""

import os
import signal
import time
from contextlib import suppress
from typing import Any, Self

import torch

from mypt_train.training.parts.distributed import World

_SAME = 1.0  # seconds in which torchrun passes on what the terminal has sent to all
_NOTICE = b"\nends after this step, which is saved; interrupt once more to end at once\n"


class Interrupt:
    """Holds back the first signal to end, while it is entered; `time` is when it came, or 0.

    Signals that are ignored stay ignored, as in commands that a shell script starts with `&`, and
    all signals are left alone unless it is `enabled`. Only the `first` process prints a notice.
    """

    def __init__(self, *, enabled: bool, first: bool) -> None:
        self.enabled, self.notice, self.time = enabled, _NOTICE * first, 0.0
        self._before = dict[int, Any]()

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            if self.enabled and signal.getsignal(number) not in (signal.SIG_IGN, None):
                with suppress(ValueError):  # signals belong to the main thread
                    self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        # Ctrl-C in a terminal ends the processes that compile, too.
        if self.time and type(error[1]).__module__.startswith(("torch._dynamo", "torch._induc")):
            raise KeyboardInterrupt

    def on_any(self, world: World) -> bool:
        """Returns whether any of the processes is to end; all of them call it."""
        if world.size == 1:
            return bool(self.time)
        return bool(world.sum(torch.tensor(self.time, device=world.device)))

    def _on_signal(self, number: int, _: Any) -> None:
        now = time.monotonic()
        if not self.time:
            self.time = now
            with suppress(OSError):  # Ctrl-C ends the reader of a pipe, such as tee, too
                os.write(2, self.notice)  # a file object may be in the middle of a line
        elif now > self.time + _SAME:
            self.__exit__(None, None, None)
            signal.raise_signal(number)
