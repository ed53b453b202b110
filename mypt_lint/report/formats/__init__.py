"""Holds one module for each format of findings."""

from typing import TextIO

from mypt_cli.terminal import Display
from mypt_lint.check.diagnostic import Summary
from mypt_lint.report.overview import Overview, judge


class Lines:
    """What formats of lines share: the stream, and how texts are shown on it.

    `overview` is set before the end of a run, if it is known.
    """

    overview: Overview | None = None

    def overview_of(self, summary: Summary) -> Overview:
        return self.overview or judge(summary, ("error",), ())

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._display = stream, Display(stream)

    def finish(self, summary: Summary) -> None:
        """Prints nothing: totals are no finding."""
