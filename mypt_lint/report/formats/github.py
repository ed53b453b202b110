"""Prints workflow commands of GitHub Actions: annotations on the lines of a pull request."""

import os
from typing import TextIO

from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_lint.report.formats import Lines, summary
from mypt_lint.report.paths import relative

_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}
# GitHub shows this many annotations of each kind in a step, and drops the rest in silence.
_MOST = 10
_LISTED = 500  # findings without an annotation that the summary of the step lists
_Numbered = tuple[int, Diagnostic]


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


class Report(Lines):
    """Annotates the first finding of each rule, then others; the log and summary have the rest."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._number = 0
        self._first: dict[str, dict[str, _Numbered]] = {severity: {} for severity in _COMMANDS}
        self._waiting: dict[str, list[_Numbered]] = {severity: [] for severity in _COMMANDS}
        self._without_severity: list[Diagnostic] = []

    def finding(self, diagnostic: Diagnostic) -> None:
        self._number += 1
        severity, code = diagnostic.finding.severity, diagnostic.finding.code
        if code not in self._first[severity]:
            self._first[severity][code] = (self._number, diagnostic)
        elif len(self._waiting[severity]) < _MOST:
            self._waiting[severity].append((self._number, diagnostic))
        else:
            self._log(diagnostic)

    def finish(self, summary: Summary) -> None:
        printed: list[_Numbered] = []
        for severity in _COMMANDS:
            ready = [*self._first[severity].values(), *self._waiting[severity]]
            printed += ready[:_MOST]
            for _, diagnostic in ready[_MOST:]:
                self._log(diagnostic)
        for _, diagnostic in sorted(printed, key=lambda item: item[0]):
            self._annotate(diagnostic)
        dropped = [s for s in _COMMANDS if summary.by_severity[s] > _MOST]
        if dropped:
            counts = ", ".join(f"{summary.by_severity[s]} of severity {s}" for s in dropped)
            self._command(
                "notice",
                {"title": "mypt-lint"},
                f"GitHub shows only {_MOST} annotations of a kind; there are {counts}. The log of "
                "this step has them all.",
            )
        page = os.environ.get("GITHUB_STEP_SUMMARY")
        if page:
            with open(page, "a", encoding="utf-8") as out:
                self._write_page(out, summary)

    def _write_page(self, out: TextIO, totals: Summary) -> None:
        page = summary.Report(out)
        page.overview = self.overview
        for first in self._first.values():
            for _, diagnostic in first.values():
                page.finding(diagnostic)
        page.finish(totals)
        if self._without_severity:
            out.write("\nWithout an annotation:\n\n")
        for diagnostic in self._without_severity:
            finding = diagnostic.finding
            place = f"{diagnostic.filename}:{diagnostic.at}"
            out.write(f"- {page.cell(f'{place} {finding.code} {finding.message}')}\n")
        count = (
            sum(totals.by_severity.values())
            - sum(min(_MOST, totals.by_severity[s]) for s in _COMMANDS)
            - len(self._without_severity)
        )
        if self._without_severity and count > 0:
            out.write(f"- and {count:,} more, in the log of the step\n")

    def _log(self, diagnostic: Diagnostic) -> None:
        """Writes a line of the log that is no command, whatever it quotes."""
        if len(self._without_severity) < _LISTED:
            self._without_severity.append(diagnostic)
        finding = diagnostic.finding
        text = (
            f"{diagnostic.filename}:{diagnostic.at}: {finding.severity} "
            f"{finding.code} {finding.name}: {finding.message}"
        )
        self._stream.write(f"- {self._display.line(text).replace('##[', '## [')}\n")

    def _annotate(self, diagnostic: Diagnostic) -> None:
        finding = diagnostic.finding
        properties = {
            "file": relative(diagnostic.filename),
            "line": str(diagnostic.row),
            "endLine": str(diagnostic.end_row),
        }
        if diagnostic.row == diagnostic.end_row:
            # GitHub refuses columns on a range over several lines, and an end before the start.
            # Its documents do not say whether the end belongs to the range; trials show that it
            # does not, as with our columns.
            properties["col"] = str(diagnostic.column)
            properties["endColumn"] = str(max(diagnostic.column, diagnostic.end_column))
        properties["title"] = f"{finding.code} {finding.name}"
        self._command(_COMMANDS[finding.severity], properties, finding.message)

    def _command(self, command: str, properties: dict[str, str], message: str) -> None:
        escaped = {
            key: _property(self._display.line(text, keep="\r\n"))
            for key, text in properties.items()
        }
        listed = ",".join(f"{key}={text}" for key, text in escaped.items())
        data = _data(self._display.line(message, keep="\r\n"))
        self._stream.write(f"::{command} {listed}::{data}\n")
