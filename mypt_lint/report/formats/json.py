"""Prints one JSON array of findings, written as they come, one a line."""

from __future__ import annotations

from typing import TextIO

from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_lint.report.record import JsonText


class Report:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._text = JsonText(stream)
        self._before = "[\n"

    def finding(self, diagnostic: Diagnostic) -> None:
        self._stream.write(self._before + self._text.finding(diagnostic))
        self._before = ",\n"

    def finish(self, summary: Summary) -> None:
        self._stream.write("[]\n" if self._before == "[\n" else "\n]\n")
