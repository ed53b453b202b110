"""Prints `path:line:col: CODE name: message`, one line a finding: for editors, grep and diff."""

from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.report.formats import Lines


class Report(Lines):
    def finding(self, diagnostic: Diagnostic) -> None:
        finding = diagnostic.finding
        where = f" {finding.pointer}" if diagnostic.table and finding.pointer else ""
        line = (
            f"{diagnostic.filename}:{diagnostic.at}{where}: {finding.code} "
            f"{finding.name}: {finding.message}"
        )
        self._stream.write(self._display.line(line) + "\n")
