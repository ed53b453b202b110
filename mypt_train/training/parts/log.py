"""Writes the log of a run: a line of JSON for each event, and progress on stderr for people.

A run that is resumed continues the log without doubles.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from mypt_cli import atomic
from mypt_cli.progress import Bar
from mypt_train.training.parts.config import ConfigError

LOG, BOARD = "log.jsonl", "tensorboard"


class Log:
    """The log of a run, in its folder.

    Lines of steps after `step`, which an earlier run left, are removed first. Only the first of
    several processes `writes`. `tensorboard` needs the package of that name.
    """

    def __init__(
        self, out: Path, *, step: int, steps: int, writes: bool, quiet: bool = False,
        tensorboard: bool = False,
    ) -> None:  # fmt: skip
        self.path, self.step, self.steps, self.writes = out / LOG, step, steps, writes
        self.shows = writes and not quiet
        self.bar = Bar(steps, unit="steps", quiet=not self.shows)
        self.board: Any = None
        if not writes:
            return
        if self.path.exists():
            lines = [line for line in self.path.read_bytes().split(b"\n") if line]
            atomic.write(self.path, [line + b"\n" for line in lines if _is_before(line, step)])
        if tensorboard:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise ConfigError(
                    'train.tensorboard needs the package: pip install "mypt-tags[tensorboard]"'
                ) from None
            self.board = SummaryWriter(str(out / BOARD))

    def __enter__(self) -> Log:
        self.at(self.step, "")
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.__exit__()
        if self.board is not None:
            self.board.close()

    def record_event(self, event: str, step: int, text: str = "", **facts: Any) -> None:
        """Appends a line, and shows a text to people."""
        if not self.writes:
            return
        with self.path.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"event": event, "step": step} | facts) + "\n")
        if self.board is not None:
            for name, value in facts.items():
                if isinstance(value, int | float):
                    self.board.add_scalar(f"{event}/{name}", value, step)
        if text:
            self.show(text)

    def show(self, text: str) -> None:
        if self.shows:
            with suppress(BrokenPipeError):  # its reader has gone, such as tee after Ctrl-C
                self.bar.print(text)

    def at(self, step: int, text: str) -> None:
        """Shows how far the run is."""
        self.bar.show(text, step, self.steps)


def _is_before(line: bytes, step: int) -> bool:
    try:
        return int(json.loads(line)["step"]) <= step
    except (ValueError, KeyError, TypeError):
        return False  # cut off when the run was killed
