"""Shows a bar on a terminal, by bytes on disk or by another count, once a run takes a while."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from mypt_cli.jsonl.blocks import Source

if TYPE_CHECKING:
    from rich.progress import Progress

_PATIENCE = 0.5  # seconds before the bar is shown
_PAUSE = 0.05  # seconds between two drawings


class Bar:
    """A bar, as a context: `at` moves it within the present source, `next` ends that source.

    `todo` are the sources, or a number of `unit`.
    """

    def __init__(self, todo: list[Source] | int, *, unit: str = "", quiet: bool = False) -> None:
        self._began, self._done, self._here, self._drawn = time.monotonic(), 0, 0, 0.0
        self._progress: Progress | None = None
        if quiet or not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            ProgressColumn,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        counts: tuple[ProgressColumn, ...] = (DownloadColumn(), TransferSpeedColumn())
        if unit:
            counts = (MofNCompleteColumn(), TextColumn(unit))
        columns = (TextColumn("{task.description}"), BarColumn(), *counts, TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        total = todo if isinstance(todo, int) else sum(source.size or 0 for source in todo)
        self._task = self._progress.add_task("", total=total or None)

    def __enter__(self) -> Bar:
        return self

    def at(self, position: int) -> None:
        """Sets how many bytes on disk of the present source are read."""
        self._here = position
        now = time.monotonic()
        if self._progress is None or now - self._drawn < _PAUSE:
            return
        self._drawn = now
        # Not before now: a thread that draws must not be alive when workers are forked.
        if not self._progress.live.is_started and now - self._began > _PATIENCE:
            self._progress.start()
        self._progress.update(self._task, completed=self._done + position)

    def show(self, what: str, done: int, total: int) -> None:
        """Shows one of several steps of a run, and how far it is."""
        if self._progress is not None:
            self._progress.update(self._task, description=what, total=total or None)
        self.at(done)

    def next(self) -> None:
        """Notes that the present source is read."""
        self._done, self._here = self._done + self._here, 0

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()
