"""Shows a bar on a terminal, by bytes on disk or by another count, once a run takes a while."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress

_PATIENCE = 0.5  # seconds before the bar is shown
_PAUSE = 0.05  # seconds between two drawings


class Sized(Protocol):
    """A source with its size in bytes, or None where that is not known."""

    @property
    def size(self) -> int | None:
        """Returns the number of bytes on disk."""


class Bar:
    """A bar, as a context: `at` moves it within the present source, `next` ends that source.

    `todo` are the sources, or a number of `unit`.
    """

    def __init__(self, todo: Sequence[Sized] | int, *, unit: str = "", quiet: bool = False) -> None:
        self._began, self._drawn = time.monotonic(), 0.0
        self._completed, self._here = 0.0, 0.0
        self._progress: Progress | None = None
        if quiet or not sys.stderr.isatty():
            return
        from rich import progress as bars
        from rich.console import Console

        counts: list[bars.ProgressColumn] = [bars.DownloadColumn(), bars.TransferSpeedColumn()]
        if unit:
            counts = [bars.MofNCompleteColumn(), bars.TextColumn(unit)]
        what, rest = bars.TextColumn("{task.description}", markup=False), bars.TimeRemainingColumn()
        console = Console(stderr=True)
        columns = (what, bars.BarColumn(), *counts, rest)
        self._progress = bars.Progress(*columns, console=console, transient=True)
        total = todo if isinstance(todo, int) else sum(source.size or 0 for source in todo)
        self._task = self._progress.add_task("", total=total or None)

    def __enter__(self) -> Bar:
        return self

    def at(self, position: float) -> None:
        """Sets how many bytes on disk of the present source are read."""
        self._here = position
        now = time.monotonic()
        if self._progress is None or now - self._drawn < _PAUSE:
            return
        self._drawn = now
        # Not before now: a thread that draws must not be alive when workers are forked.
        if not self._progress.live.is_started and now - self._began > _PATIENCE:
            self._progress.start()
        self._progress.update(self._task, completed=self._completed + position)

    def show(self, what: str, completed: float, total: int) -> None:
        """Shows one of several steps of a run, and how far it is.

        A step that is done is not shown any more, so that nothing draws while the next one begins.
        """
        if self._progress is not None:
            self._progress.update(self._task, description=what, total=total or None)
        self.at(completed)
        if self._progress is not None and completed >= total > 0:
            self._progress.stop()

    def print(self, text: str) -> None:
        """Prints a line on stderr, above the bar."""
        if self._progress is None:
            print(text, file=sys.stderr)
        else:
            self._progress.console.print(text, markup=False, highlight=False)

    def next(self) -> None:
        """Notes that the present source is read."""
        self._completed, self._here = self._completed + self._here, 0

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()


@contextmanager
def waiting(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Shows on a terminal what is done in the block, which does not say how far it is."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
