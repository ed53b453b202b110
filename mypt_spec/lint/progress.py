"""A bar on a terminal, by bytes on disk, once a run takes a while."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from mypt_spec.lint.sources import Source

if TYPE_CHECKING:
    from rich.progress import Progress

_PATIENCE = 0.5  # seconds before it is shown


class Bar:
    """A context: `at` says how far the present source is read, `next` that it is done."""

    def __init__(self, sources: list[Source], *, quiet: bool = False) -> None:
        self._began, self._done, self._here = time.monotonic(), 0, 0
        self._progress: Progress | None = None
        if quiet or not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(
            "", total=sum(source.size or 0 for source in sources) or None
        )

    def __enter__(self) -> Bar:
        return self

    def at(self, position: int) -> None:
        """Bytes on disk of the present source that are read."""
        self._here = position
        if self._progress is None:
            return
        # Not before now: a thread that draws must not be alive when workers are forked.
        if not self._progress.live.is_started and time.monotonic() - self._began > _PATIENCE:
            self._progress.start()
        self._progress.update(self._task, completed=self._done + position)

    def next(self) -> None:
        """The present source is read."""
        self._done, self._here = self._done + self._here, 0

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
