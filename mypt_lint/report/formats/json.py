"""Prints one JSON array of findings, written as they come, one a line."""

from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.report.record import JsonArray


class Report(JsonArray):
    def finding(self, diagnostic: Diagnostic) -> None:
        self._write(self._text.finding(diagnostic))
