"""Prints a page of Markdown for a CI run: the verdict, each rule, what the data holds.

On a terminal, the page is laid out.
"""

import html
import re
from collections.abc import Sequence
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
        self._page, self._has_bars = "", self._display.encoding == "utf-8"

    def finding(self, diagnostic: Diagnostic) -> None:
        self._first.setdefault(diagnostic.finding.code, diagnostic)

    def finish(self, summary: Summary) -> None:
        overview, unit = self.overview_of(summary), f">{summary.unit_name}s"
        mark = ("✅ " if overview.status == CLEAN else "❌ ") * self._has_bars
        self._page += f"### {mark}mypt-lint {overview.verdict}\n"
        for line in (summary_line(summary), *overview.above):
            self._page += f"\n{self.cell(line)}\n"
        self._table("code", "rule", ">findings", unit, "first", rows=[
            [code, RULES[code].name if code in RULES else "", n, summary.units_by_code[code],
             self._place(code)]
            for code, n in sorted(summary.by_code.items(), key=lambda item: (-item[1], item[0]))
        ])  # fmt: skip
        self._data(summary)
        files = sorted(overview.files, key=lambda file: (-file[2].by_severity.total(), file[0]))
        self._table("file", unit, ">faulty", ">findings", "holds", rows=[
            [self.cell(name), counts.units, counts.faulty, counts.by_severity.total(), about]
            for name, about, counts in files[:_FILES] if len(files) > 1
        ])  # fmt: skip
        if len(files) > _FILES:
            self._page += f"\n{len(files) - _FILES:,} more files\n"
        rows = [[self.cell(what), f"`{option}`"] for what, option in overview.unchecked]
        self._table("not checked", "needs", rows=rows)
        if not self._stream.isatty():
            self._stream.write(self._page)
            return
        from rich.console import Console
        from rich.markdown import Markdown

        Console(file=self._stream).print(Markdown(self._page))

    def _data(self, summary: Summary) -> None:
        """Writes what the records hold, if that was counted."""
        if summary.profile is None or not summary.profile.digests:
            return
        facts = summary.profile.facts()
        about = "" if facts["exact"] else "about "
        sample = f" ({facts['sample']:,} of them for what follows)" if facts["sample"] else ""
        rows = [
            ["repeated records", f"{facts['repeated']:,}"],
            ["records", f"{facts['records']:,}{sample}"],
            ["tokens", f"{about}{facts['tokens']:,}"],
        ]
        if facts["share"] is not None:
            rows.append(["trained", f"{facts['share']:.1%}"])
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
        rule = "|".join("--:" if name.startswith(">") else "---" for name in head)
        lines = [[name.removeprefix(">") for name in head], *rows]
        cells = [[f"{c:,}" if isinstance(c, int) else c for c in line] for line in lines]
        first, *others = [f"| {' | '.join(line)} |\n" for line in cells]
        self._page += "".join(["\n", first, f"|{rule}|\n", *others]) if rows else ""

    def _place(self, code: str) -> str:
        diagnostic = self._first.get(code)
        if diagnostic is None:
            return ""
        message = diagnostic.finding.message
        cut = f"{message[:_LONG]}{self._display.ellipsis}" if len(message) > _LONG else message
        return self.cell(f"{diagnostic.filename}:{diagnostic.at} {cut}")

    def cell(self, text: str) -> str:
        return _SPECIAL.sub(r"\\\1", html.escape(self._display.line(text), quote=False))
