"""Prints a page of Markdown for a CI run: the verdict, each rule, what the data holds.

On a terminal it is the same page, with aligned columns and nothing escaped.
"""

import html
import re
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import TextIO

from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_lint.report.formats import Lines
from mypt_lint.report.overview import CLEAN
from mypt_lint.report.totals import summary_line
from mypt_spec.findings import RULES

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~-])")
_FILES = 20
_BAR = 20  # cells of a bar
_LEVELS = " ▁▂▃▄▅▆▇█"
_LONG = 160  # code points of a message


class Report(Lines):
    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._first: dict[str, Diagnostic] = {}
        self._on_terminal, self._has_bars = stream.isatty(), self._display.encoding == "utf-8"

    def finding(self, diagnostic: Diagnostic) -> None:
        self._first.setdefault(diagnostic.finding.code, diagnostic)

    def finish(self, summary: Summary) -> None:
        overview, unit = self.overview_of(summary), f">{summary.unit_name}s"
        mark = ("✅ " if overview.status == CLEAN else "❌ ") * self._has_bars
        self._write(f"### {mark}mypt-lint {overview.verdict}\n")
        for line in (summary_line(summary), *overview.above):
            self._write(f"\n{self.cell(line)}\n")
        self._table("code", "rule", ">findings", unit, "first", rows=[
            [code, RULES[code].name if code in RULES else "", n, summary.units_by_code[code],
             self._place(code)]
            for code, n in sorted(summary.by_code.items(), key=lambda item: (-item[1], item[0]))
        ])  # fmt: skip
        self._data(summary)
        files = sorted(overview.files, key=lambda file: (-file.findings, file.name))
        self._table("file", unit, ">faulty", ">findings", "holds", rows=[
            [self.cell(f.name), f.units, f.faulty, f.findings, f.about]
            for f in files[:_FILES] if len(files) > 1
        ])  # fmt: skip
        if len(files) > _FILES:
            self._write(f"\n{len(files) - _FILES:,} more files\n")
        rows = [[self.cell(what), f"`{option}`"] for what, option in overview.unchecked]
        self._table("not checked", "needs", rows=rows)

    def _data(self, summary: Summary) -> None:
        """Writes what the records hold, if that was counted."""
        if summary.profile is None or not summary.profile.digests:
            return
        facts = summary.profile.facts()
        about = "" if facts["exact"] else "about "
        rows = [["records", f"{facts['records']:,}"], ["tokens", f"{about}{facts['tokens']:,}"]]
        if facts["share"] is not None:
            rows.append(["trained", f"{facts['share']:.1%}"])
        rows.append(["repeated records", f"{facts['repeated']:,}"])
        if facts["unread"]:
            rows.append(["records without a conversation", f"{facts['unread']:,}"])
        for title, sizes in (("tokens", facts.get("lengths")), ("turns", facts.get("turns"))):
            if sizes:
                some = [f"{share} up to {sizes['quantiles'][share]:,}" for share in ("50%", "95%")]
                counts = [count for *_, count in sizes["bins"]]
                bars = "".join(_LEVELS[-(-8 * n // max(counts))] for n in counts)
                line = f"{', '.join(some)}, most {sizes['most']:,}  {bars * self._has_bars}"
                rows.append([f"{title} of a record", line.rstrip()])
        self._table("data", "", rows=rows)
        most = max([1, *(characters for *_, characters in facts["roles"])])
        bar = "█" if self._has_bars else "#"
        self._table("role", ">messages", ">characters", "", rows=[
            [self.cell(role), n, characters, bar * max(1, round(_BAR * characters / most))]
            for role, n, characters in facts["roles"]
        ])  # fmt: skip

    def _table(self, *head: str, rows: Sequence[Sequence[str | int]]) -> None:
        """Writes a table, if it has rows; a column whose head begins with `>` holds numbers."""
        right = [name.startswith(">") for name in head]
        lines = [[name.removeprefix(">") for name in head]]
        lines += [[f"{c:,}" if isinstance(c, int) else c for c in row] for row in rows]
        if rows and self._on_terminal:
            self._aligned(lines, right)
        elif rows:
            first, *others = [f"| {' | '.join(line)} |" for line in lines]
            rule = "|".join("--:" if numbers else "---" for numbers in right)
            self._write("\n".join(["", first, f"|{rule}|", *others, ""]))

    def _aligned(self, lines: list[list[str]], right: Sequence[bool]) -> None:
        from rich.cells import cell_len, set_cell_size

        widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
        lines.insert(1, ["-" * cell_len(name) for name in lines[0]])
        self._write("\n")
        for line in lines:
            cells = []
            for cell, width, numbers in zip(line, widths, right, strict=True):
                blank = " " * (width - cell_len(cell))
                cells.append(blank + cell if numbers else cell + blank)
            text, columns = "  ".join(cells).rstrip(), get_terminal_size().columns
            if cell_len(text) > columns:
                text = set_cell_size(text, columns - 1) + self._display.ellipsis
            self._write(f"{text}\n")

    def _place(self, code: str) -> str:
        diagnostic = self._first.get(code)
        if diagnostic is None:
            return ""
        message = diagnostic.finding.message
        cut = f"{message[:_LONG]}{self._display.ellipsis}" if len(message) > _LONG else message
        return self.cell(f"{diagnostic.filename}:{diagnostic.at} {cut}")

    def cell(self, text: str) -> str:
        text = self._display.line(text)
        return text if self._on_terminal else _SPECIAL.sub(r"\\\1", html.escape(text, quote=False))

    def _write(self, text: str) -> None:
        self._stream.write(self._display.line(text, keep="\n"))
