"""Prints the default format: a finding with its source line, carets under the fault, and help.

User text goes through `Text` objects only; as rich markup `[/INST]` would raise and `[b]` vanish.
"""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.text import Text

from mypt_cli.terminal import Display
from mypt_cli.words import notes
from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_lint.report.excerpt import excerpt
from mypt_spec.findings import Finding

_WIDTH = 100
_STYLES = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_GUTTER = "bold blue"


class Report:
    def __init__(
        self, stream: TextIO, *, color: bool | None = None, width: int | None = None
    ) -> None:
        self._stream = stream
        self._display = Display(stream)
        self._console = _console(stream, color)
        self._width = width or (
            self._console.width if self._console.is_terminal and stream.isatty() else _WIDTH
        )
        self._last: tuple[str, str] | None = None  # code and file

    def finding(self, diagnostic: Diagnostic, *, brief: bool = False) -> None:
        """Writes a finding; `brief` leaves out what is the same for all of its kind."""
        this = (diagnostic.finding.code, diagnostic.filename)
        block = Text("" if self._last is None or (brief and self._last == this) else "\n")
        self._last = this
        gutter = " " * len(str(diagnostic.row))
        self._head(block, diagnostic, gutter)
        if diagnostic.snippet is not None:
            self._source(block, diagnostic, gutter, brief=brief)
        for label, text in notes(diagnostic.finding) if not brief else ():
            block.append(f"\n{gutter} = ", _GUTTER)
            block.append(f"{label}:", "bold")
            continued = "\n" + " " * (len(gutter) + len(f" = {label}: "))
            block.append(" " + continued.join(map(self._display.line, text.split("\n"))))
        if self._console.color_system is None:
            self._stream.write(block.plain + "\n")  # what rich would print, in half the time
        else:
            self._console.print(block, markup=False, highlight=False, soft_wrap=True)

    def more(self, filename: str, code: str, name: str, count: int) -> None:
        """Writes that there are more of a kind in a file."""
        self._stream.write(
            f"... and {count:,} more {code} {name} in {self._display.line(filename)} (--show-all "
            "prints them)\n"
        )

    def finish(self, summary: Summary) -> None:
        """Prints nothing: totals are no finding."""

    def _head(self, block: Text, diagnostic: Diagnostic, gutter: str) -> None:
        finding, show = diagnostic.finding, self._display.line
        block.append(f"{finding.severity}[{finding.code}]", _STYLES[finding.severity])
        block.append(f" {finding.name}:", "bold")
        block.append(f" {show(finding.message)}\n")
        block.append(f"{gutter}--> ", _GUTTER)
        block.append(f"{show(diagnostic.filename)}:{diagnostic.row}:{diagnostic.column}")
        place = [show(finding.pointer)] if finding.pointer else []
        if finding.span:
            place.append(f"@{finding.span[0]}..{finding.span[1]}")
        if place:
            block.append("  " + " ".join(place), "cyan")

    def _source(
        self, block: Text, diagnostic: Diagnostic, gutter: str, *, brief: bool = False
    ) -> None:
        assert diagnostic.snippet is not None
        shown = excerpt(diagnostic.snippet, self._display, self._width - len(gutter) - len(" | "))
        block.append(
            f"\n{diagnostic.row} | " if brief else f"\n{gutter} |\n{diagnostic.row} | ", _GUTTER
        )
        block.append(f"{shown.text}\n")
        block.append(f"{gutter} | ", _GUTTER)
        block.append(" " * shown.indent)
        block.append(
            "^" * shown.carets + _label(diagnostic.finding), _STYLES[diagnostic.finding.severity]
        )


def _console(stream: TextIO, color: bool | None) -> Console:
    if color is None:
        return Console(file=stream)
    # The caller has chosen, so NO_COLOR and TERM do not count.
    return Console(
        file=stream,
        color_system="standard" if color else None,
        force_terminal=color,
        no_color=not color,
    )


def _label(finding: Finding) -> str:
    return " not allowed here" if finding.code.startswith("MYP2") and finding.expected else ""
