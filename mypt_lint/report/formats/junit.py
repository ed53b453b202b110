"""Prints JUnit's XML, for what shows test results: a suite a file, a failed case a finding."""

import re
from typing import TextIO
from xml.sax.saxutils import escape, quoteattr

from mypt_cli.words import one_of
from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_lint.report.formats import Lines

MOST = 1000  # cases of one file, held until its end: a suite begins with their number
_NO_XML = re.compile("[\ufffe\uffff]")


class Report(Lines):
    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._file: str | None = None
        self._cases: list[str] = []
        self._count = 0
        self._head = '<?xml version="1.0"?>\n<testsuites name="mypt-lint">\n'

    def finding(self, diagnostic: Diagnostic) -> None:
        if diagnostic.filename != self._file:
            self._close()
            self._file = diagnostic.filename
        self._count += 1
        if len(self._cases) >= MOST:
            return
        finding = diagnostic.finding
        name = f"{finding.code} {finding.name} {diagnostic.at}"
        details = [f"{diagnostic.at} {finding.message}"]
        details += [f"expected {one_of(finding.expected)}"] if finding.expected else []
        text = "\n".join([*details, finding.help] if finding.help else details)
        self._cases.append(
            f"    <testcase name={self._attribute(name)} "
            f"classname={self._attribute(diagnostic.filename)}>\n"
            f"      <failure type={self._attribute(finding.severity)} "
            f"message={self._attribute(finding.message)}>"
            f"{escape(self._printable(text, keep=chr(10)))}</failure>\n    </testcase>\n"
        )

    def finish(self, summary: Summary) -> None:
        self._close()
        if self._head:
            self._write(
                '  <testsuite name="mypt-lint" tests="1" failures="0" errors="0">\n'
                '    <testcase name="no findings" classname="mypt-lint"/>\n  </testsuite>\n'
            )
        self._write("</testsuites>\n")

    def _close(self) -> None:
        if self._file is None:
            return
        unlisted = self._count - len(self._cases)
        if unlisted:
            text = quoteattr(f"{unlisted} more findings are not listed")
            self._cases.append(
                f"    <testcase name={text} classname={self._attribute(self._file)}>\n      "
                f"<failure message={text}/>\n    </testcase>\n"
            )
        number = len(self._cases)
        self._write(
            f'  <testsuite name={self._attribute(self._file)} tests="{number}" '
            f'failures="{number}" errors="0">\n'
        )
        self._write("".join(self._cases) + "  </testsuite>\n")
        self._cases, self._count, self._file = [], 0, None

    def _attribute(self, text: str) -> str:
        return quoteattr(self._printable(text))

    def _printable(self, text: str, *, keep: str = "") -> str:
        """Returns the text without what XML cannot hold, which is spelled out."""
        return _NO_XML.sub(lambda m: f"\\u{ord(m[0]):04x}", self._display.line(text, keep=keep))

    def _write(self, text: str) -> None:
        if self._display.encoding != "utf-8":
            text = text.encode("ascii", "xmlcharrefreplace").decode()
        self._stream.write(self._head + text)
        self._head = ""
