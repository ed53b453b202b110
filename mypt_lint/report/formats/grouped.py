"""Prints findings under the name of their file: for people with many files."""

from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.report.formats import Lines


class Report(Lines):
    _file: str | None = None

    def finding(self, diagnostic: Diagnostic, *, brief: bool = False) -> None:
        """Writes a finding; none is longer than a line, so `brief` changes nothing."""
        if diagnostic.filename != self._file:
            before = "" if self._file is None else "\n"
            self._stream.write(f"{before}{self._display.line(diagnostic.filename)}:\n")
            self._file = diagnostic.filename
        finding = diagnostic.finding
        place = diagnostic.at
        fix = f" [{'safe' if finding.fix.safe else 'unsafe'} fix]" if finding.fix else ""
        self._stream.write(
            f"  {place:<9} {finding.severity:<7} {finding.code} "
            f"{self._display.line(f'{finding.name}: {finding.message}')}{fix}\n"
        )

    def more(self, filename: str, code: str, name: str, count: int) -> None:
        """Writes that there are more of a kind in a file."""
        self._stream.write(f"  ... and {count:,} more {code} {name} (--show-all prints them)\n")
