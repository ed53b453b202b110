"""Prints one JSON object a line; the last, the summary, shows that the report is complete."""

from typing import TextIO

from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_lint.report.record import JsonText


class Report:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._text = JsonText(stream)

    def finding(self, diagnostic: Diagnostic) -> None:
        self._stream.write(self._text.finding(diagnostic) + "\n")

    def finish(self, summary: Summary) -> None:
        record = {
            "type": "summary",
            "files": summary.files,
            "lines": summary.units,
            "clean": summary.clean,
            "faulty": summary.faulty,
            "bytes": summary.bytes,
            "errors": summary.by_severity["error"],
            "warnings": summary.by_severity["warning"],
            "infos": summary.by_severity["info"],
            "codes": dict(sorted(summary.by_code.items())),
        }
        self._stream.write(self._text(record) + "\n")
