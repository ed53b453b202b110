"""Prints a page of Markdown for a CI run: totals, and each rule with its first place."""

import html
import re
from typing import TextIO

from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_lint.report.formats import Lines
from mypt_lint.report.totals import summary_line
from mypt_spec.findings import RULES

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~-])")


class Report(Lines):
    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._first: dict[str, Diagnostic] = {}

    def finding(self, diagnostic: Diagnostic) -> None:
        self._first.setdefault(diagnostic.finding.code, diagnostic)

    def finish(self, summary: Summary) -> None:
        write = self._stream.write
        write(f"### mypt-lint\n\n{self.cell(summary_line(summary))}\n")
        codes = sorted(summary.by_code, key=lambda code: (-summary.by_code[code], code))
        if codes:
            write(
                f"\n| code | rule | findings | {summary.unit_name}s | first "
                "|\n|---|---|--:|--:|---|\n"
            )
        for code in codes:
            name = RULES[code].name if code in RULES else ""
            row = (
                f"| {code} | {name} | {summary.by_code[code]:,} | {summary.units_by_code[code]:,} "
                f"| {self._place(code)} |"
            )
            write(row + "\n")

    def _place(self, code: str) -> str:
        diagnostic = self._first.get(code)
        if diagnostic is None:
            return ""
        place = f"{diagnostic.filename}:{diagnostic.at}"
        return self.cell(f"{place} {diagnostic.finding.message}")

    def cell(self, text: str) -> str:
        return _SPECIAL.sub(r"\\\1", html.escape(self._display.line(text), quote=False))
