"""Workflow commands of GitHub Actions: annotations on the changed lines of a pull request."""

from __future__ import annotations

from typing import TextIO

from mypt_spec.lint.located import Located, Summary
from mypt_spec.lint.render.paths import relative
from mypt_spec.lint.render.visible import Display

_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}
_SHOWN = 10
"""GitHub shows this many annotations of each kind a step, and drops the rest without a word."""


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


class Report:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._display = Display(stream)

    def finding(self, located: Located) -> None:
        finding = located.finding
        properties = {"file": relative(located.filename), "line": str(located.row), "endLine": str(located.end_row)}
        if located.row == located.end_row:
            # GitHub refuses columns on a range over several lines, and an end before the start. Its documents do not say
            # whether the end belongs to the range; those who tried found that it does not, as with our columns.
            properties["col"] = str(located.column)
            properties["endColumn"] = str(max(located.column, located.end_column))
        properties["title"] = f"{finding.code} {finding.name}"
        self._command(_COMMANDS[finding.severity], properties, finding.message)

    def finish(self, summary: Summary) -> None:
        dropped = [s for s in _COMMANDS if summary.by_severity[s] > _SHOWN]
        if dropped:
            counts = ", ".join(f"{summary.by_severity[s]} of severity {s}" for s in dropped)
            self._command(
                "notice",
                {"title": "mypt-lint"},
                f"GitHub shows only {_SHOWN} annotations of a kind; there are {counts}. The log of this step has them all.",
            )

    def _command(self, command: str, properties: dict[str, str], message: str) -> None:
        shown = {key: _property(self._display.line(text, keep="\r\n")) for key, text in properties.items()}
        listed = ",".join(f"{key}={text}" for key, text in shown.items())
        data = _data(self._display.line(message, keep="\r\n"))
        self._stream.write(f"::{command} {listed}::{data}\n")
