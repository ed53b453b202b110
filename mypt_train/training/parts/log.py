"""Writes the log of a run: a line of JSON for each event, and progress on stderr for people.

A run that is resumed continues the log without doubles.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mypt_cli import atomic
from mypt_train.training.parts.config import ConfigError

LOG, BOARD = "log.jsonl", "tensorboard"


class Log:
    """The log of a run, in its folder.

    Lines of steps after `step`, which an earlier run left, are removed first. Only the first of
    several processes `writes`. `tensorboard` needs the package of that name.
    """

    def __init__(
        self,
        out: Path,
        *,
        step: int,
        steps: int,
        writes: bool,
        quiet: bool = False,
        tensorboard: bool = False,
    ) -> None:
        self.path, self.steps, self.writes = out / LOG, steps, writes
        self.shows = writes and not quiet
        self.bar: Any = None
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
        if self.shows and sys.stderr.isatty():
            self.bar = _bar(steps, step)

    def __enter__(self) -> Log:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()
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
        """Shows a text to people."""
        if self.bar is not None:
            self.bar.console.print(text, markup=False, highlight=False)
        elif self.shows:
            print(text, file=sys.stderr)

    def at(self, step: int, text: str) -> None:
        """Shows how far the run is."""
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=step, description=text)


def _is_before(line: bytes, step: int) -> bool:
    try:
        return int(json.loads(line)["step"]) <= step
    except (ValueError, KeyError, TypeError):
        return False  # cut off when the run was killed


def _bar(steps: int, step: int) -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task("", total=steps, completed=step)
    return bar
