"""Prints `path:line:col: CODE name: message`, one line a finding: for editors, grep and diff."""

from __future__ import annotations

from typing import TextIO

from mypt_cli.terminal import Display
from mypt_lint.check.diagnostic import Diagnostic, Summary


class Report:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._display = Display(stream)

    def finding(self, diagnostic: Diagnostic) -> None:
        finding = diagnostic.finding
        where = f" {finding.pointer}" if diagnostic.table and finding.pointer else ""
        line = (
            f"{diagnostic.filename}:{diagnostic.at}{where}: {finding.code} "
            f"{finding.name}: {finding.message}"
        )
        self._stream.write(self._display.line(line) + "\n")

    def finish(self, summary: Summary) -> None:
        """Prints nothing: totals are no finding."""
