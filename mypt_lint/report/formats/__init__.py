"""Holds one module for each format of findings."""

from typing import TextIO

from mypt_cli.terminal import Display
from mypt_lint.check.diagnostic import Summary


class Lines:
    """What formats of lines share: the stream, and how texts are shown on it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._display = stream, Display(stream)

    def finish(self, summary: Summary) -> None:
        """Prints nothing: totals are no finding."""
