"""Writes one page for a browser: the verdict, counts, distributions, and findings in context.

It has a few findings of each rule and the counts of all, so its size is bounded. Texts of users are
data of the page and never markup (`mypt_cli.page`).
"""

from collections import Counter
from importlib.resources import files
from typing import Any, TextIO

from mypt_cli.page import page
from mypt_cli.words import notes
from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_lint.report.formats import Lines
from mypt_lint.report.totals import summary_line
from mypt_spec import __version__
from mypt_spec.findings import RULES

OF_RULE, IN_FILE, MOST = 20, 5, 1000  # findings shown: of a rule, of a rule in a file, of all
_FILES = 500
_LONG = 600  # code points of a text
_CELLS = 220  # of the source line


class Report(Lines):
    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._examples: list[dict[str, Any]] = []
        self._counts: Counter[Any] = Counter()  # by rule, and by rule and file

    def finding(self, diagnostic: Diagnostic) -> None:
        finding, source, show = diagnostic.finding, ["", "", ""], self._short
        keys = finding.code, (finding.code, diagnostic.filename)
        counts = [self._counts[key] for key in keys]
        if len(self._examples) == MOST or counts[0] == OF_RULE or counts[1] == IN_FILE:
            return
        self._counts.update(keys)
        if diagnostic.snippet is not None:
            from mypt_lint.report.excerpt import excerpt  # loads rich

            line = excerpt(diagnostic.snippet, self._display, _CELLS)
            start, end = line.mark
            source = [line.text[:start], line.text[start:end], line.text[end:]]
        self._examples.append({
            "code": finding.code, "name": finding.name, "severity": finding.severity,
            "message": show(finding.message), "file": show(diagnostic.filename),
            "at": diagnostic.at, "pointer": show(finding.pointer), "source": source,
            "notes": [[label, show(text)] for label, text in notes(finding)],
        })  # fmt: skip

    def finish(self, summary: Summary) -> None:
        overview, counts = self.overview_of(summary), summary.graded
        files_ = sorted(overview.files, key=lambda file: (-file[2].by_severity.total(), file[0]))
        data = {
            "status": overview.status,
            "verdict": overview.verdict,
            "above": overview.above,
            "unchecked": overview.unchecked,
            "files": [
                [self._short(name), about, part.units, part.faulty, part.by_severity.total()]
                for name, about, part in files_[:_FILES]
            ],
            "version": __version__,
            "line": summary_line(summary),
            "more": max(0, len(files_) - _FILES),
            "rules": [
                [code, RULES[code].name, severity, count, summary.units_by_code[code]]
                for (code, severity), count in sorted(counts.items(), key=lambda i: (-i[1], i[0]))
            ],
            "facts": summary.profile.facts() if summary.profile else None,
            "findings": self._examples,
            "severities": summary.by_severity,
            "unit_name": summary.unit_name,
            "units": summary.units,
            "faulty": summary.faulty,
            "in_baseline": summary.in_baseline,
        }
        folder = files("mypt_lint") / "report" / "assets"
        text = page(folder, "report.html", ["report.css"], ["report.js"], data)
        self._stream.write(text.decode())

    def _short(self, text: str) -> str:
        visible = self._display.line(text, keep="\n")
        return visible if len(visible) <= _LONG else visible[:_LONG] + self._display.ellipsis
