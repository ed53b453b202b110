"""Sends findings, in one format or several, to standard output or to files.

For people, only the first of many equal findings are printed, and the rest is counted.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import Any, TextIO

from mypt_cli.errors import UsageError, suggestion
from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_lint.report import FORMATS, renderer
from mypt_lint.report.mask import without_values
from mypt_lint.report.overview import Overview

MOST_SHOWN = 3  # findings of a code in a file that are shown to people
ADVICE = 7  # more of them, where each has different help


def utf8(stream: TextIO) -> TextIO:
    """Sets a stream to UTF-8 unless it is a terminal: findings quote anything. Returns it."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None and not stream.isatty():
        reconfigure(encoding="utf-8")
    return stream


def outputs_of(formats: Sequence[str], output: str | None) -> list[tuple[str, str | None]]:
    """Returns (format, file) for each format asked for, as in `text` or `sarif=lint.sarif`.

    A format without a file goes to `output`, or to standard output (None). Raises UsageError for an
    unknown format, and for two that go to one place.
    """
    out = []
    for item in formats:
        name, _, path = item.partition("=")
        if name not in FORMATS:
            hint = suggestion(name, FORMATS, f"formats are {', '.join(FORMATS)}")
            raise UsageError(f"no format is called {name!r}{hint}")
        out.append((name, path or output))
    places = Counter(os.path.realpath(path) if path else None for _, path in out)
    for place, count in places.items():
        if count > 1:
            where = place or "standard output"
            raise UsageError(
                f"{count} formats go to {where}; give each its own file, as in --format "
                "sarif=lint.sarif"
            )
    return out


def shows_data(places: Sequence[tuple[str, str | None]]) -> bool:
    """Returns whether a format shows what the records hold, and not only what is wrong in them."""
    formats = ["html", "summary"] + ["github"] * bool(os.environ.get("GITHUB_STEP_SUMMARY"))
    return any(name in formats for name, _ in places)


class Outputs:
    """Writes all outputs of a run, if any. A context: files are closed at its end."""

    def __init__(
        self,
        places: Sequence[tuple[str, str | None]],
        inputs: Sequence[str],
        *,
        show_all: bool = False,
    ) -> None:
        self._places, self._show_all = places, show_all
        self._inputs = {os.path.realpath(path) for path in inputs}
        self._stack = ExitStack()
        self._reports: list[Any] = []

    def __enter__(self) -> Outputs:
        out = utf8(sys.stdout)
        with self._stack:
            for name, path in self._places:
                stream = out if path is None else self._stack.enter_context(self._opened(path))
                brief = name == "text" and not self._show_all
                self._reports.append(FirstOfEach(stream) if brief else renderer(name, stream))
            self._stack = self._stack.pop_all()
        return self

    def finding(self, diagnostic: Diagnostic) -> None:
        masked = without_values(diagnostic)
        for report in self._reports:
            report.finding(masked)

    def finish(self, summary: Summary, overview: Overview) -> None:
        for report in self._reports:
            report.overview = overview
            report.finish(summary)

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _opened(self, path: str) -> TextIO:
        if os.path.realpath(path) in self._inputs:
            raise UsageError(f"{path}: is read from; name another file for the findings")
        try:
            return open(path, "w", encoding="utf-8", newline="")
        except OSError as error:
            raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None


class FirstOfEach:
    """Passes on the first findings of a code in a file, and the first with each help.

    The rest is counted. Help that was printed before is left out. The report is made at its first
    finding, because the packages that it needs take longer to load than a small file to check.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._file = ""
        self._counts: Counter[tuple[str, str]] = Counter()  # by code and name
        self._printed: Counter[tuple[str, str]] = Counter()
        self._helps: set[tuple[str, str]] = set()  # codes and help

    @cached_property
    def _report(self) -> Any:
        return renderer("text", self._stream)

    def finding(self, diagnostic: Diagnostic) -> None:
        if diagnostic.filename != self._file:
            self._close()
            self._file = diagnostic.filename
        finding = diagnostic.finding
        key, advice = (finding.code, finding.name), (finding.code, finding.help)
        self._counts[key] += 1
        new = not self._counts[key] - 1 or bool(finding.help and advice not in self._helps)
        if self._printed[key] < MOST_SHOWN or (new and self._printed[key] < MOST_SHOWN + ADVICE):
            self._printed[key] += 1
            self._helps.add(advice)
            self._report.finding(diagnostic, brief=not new)

    def finish(self, summary: Summary) -> None:
        """Writes the counts of the last file: reports for people have no other end."""
        self._close()

    def _close(self) -> None:
        for (code, name), count in sorted(self._counts.items()):
            unprinted = count - self._printed[code, name]
            if unprinted:
                self._report.more(self._file, code, name, unprinted)
        self._counts.clear()
        self._printed.clear()
        self._helps.clear()
