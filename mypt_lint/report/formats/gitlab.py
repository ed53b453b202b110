"""Prints GitLab's Code Quality report: a JSON array whose findings differ in fingerprint."""

import hashlib
from collections import Counter
from typing import TextIO

from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.report.paths import relative
from mypt_lint.report.record import JsonArray

_SEVERITIES = {"error": "major", "warning": "minor", "info": "info"}


def fingerprint(diagnostic: Diagnostic) -> str:
    """Returns 64 hexadecimal digits that stay when lines move: of the finding, file and text."""
    finding, snippet = diagnostic.finding, diagnostic.snippet
    parts = (
        finding.code,
        finding.pointer,
        relative(diagnostic.filename),
        finding.message,
        snippet.text if snippet else "",
    )
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


class Report(JsonArray):
    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._counts: Counter[bytes] = Counter()

    def finding(self, diagnostic: Diagnostic) -> None:
        finding = diagnostic.finding
        print_ = fingerprint(diagnostic)
        key = bytes.fromhex(print_[:16])
        if self._counts[key]:  # GitLab keeps one of each
            print_ = hashlib.sha256(f"{print_} {self._counts[key]}".encode()).hexdigest()
        self._counts[key] += 1
        begin = {"line": diagnostic.row, "column": diagnostic.column}
        end = {"line": diagnostic.end_row, "column": diagnostic.end_column}
        issue = {
            "description": f"{finding.name}: {finding.message}",
            "check_name": finding.code,
            "fingerprint": print_,
            "severity": _SEVERITIES[finding.severity],
            "location": {
                "path": relative(diagnostic.filename),
                "positions": {"begin": begin, "end": end},
            },
        }
        self._write(self._text(issue))
