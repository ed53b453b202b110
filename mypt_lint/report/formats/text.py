"""Prints the default format: a finding with its source line, carets under the fault, and help.

User text goes through `Text` objects only; as rich markup `[/INST]` would raise and `[b]` vanish.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TextIO

from mypt_cli.words import notes
from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.report.excerpt import excerpt
from mypt_lint.report.formats import Lines

if TYPE_CHECKING:
    from rich.console import Console

_Block = list[tuple[str, str]]  # texts, each with its style
_FORCING = ("FORCE_COLOR", "TTY_COMPATIBLE")  # make rich take any stream for a terminal
_WIDTH = 100
_STYLES = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_GUTTER = "bold blue"


class Report(Lines):
    def __init__(
        self, stream: TextIO, *, color: bool | None = None, width: int | None = None
    ) -> None:
        super().__init__(stream)
        self._console = _console(stream, color)
        on_screen = self._console and self._console.is_terminal and stream.isatty()
        self._width = width or (self._console.width if self._console and on_screen else _WIDTH)
        self._last: tuple[str, str] | None = None  # code and file

    def finding(self, diagnostic: Diagnostic, *, brief: bool = False) -> None:
        """Writes a finding; `brief` leaves out what is the same for all of its kind."""
        current = (diagnostic.finding.code, diagnostic.filename)
        near = self._last is None or (brief and self._last == current)
        block: _Block = [("" if near else "\n", "")]
        self._last = current
        gutter = " " * len(str(diagnostic.row))
        self._head(block, diagnostic, gutter)
        if diagnostic.snippet is not None:
            self._source(block, diagnostic, gutter, brief=brief)
        for label, text in notes(diagnostic.finding) if not brief else ():
            continued = "\n" + " " * (len(gutter) + len(f" = {label}: "))
            lines = continued.join(map(self._display.line, text.split("\n")))
            block += [(f"\n{gutter} = ", _GUTTER), (f"{label}:", "bold"), (f" {lines}", "")]
        if self._console is None or self._console.color_system is None:
            # As rich would print it, in half the time.
            self._stream.write("".join([text for text, _ in block]) + "\n")
        else:
            from rich.text import Text

            block_text = Text.assemble(*block)
            self._console.print(block_text, markup=False, highlight=False, soft_wrap=True)

    def more(self, filename: str, code: str, name: str, count: int) -> None:
        """Writes that there are more of a kind in a file."""
        self._stream.write(
            f"... and {count:,} more {code} {name} in {self._display.line(filename)} (--show-all "
            "prints them)\n"
        )

    def _head(self, block: _Block, diagnostic: Diagnostic, gutter: str) -> None:
        finding, show = diagnostic.finding, self._display.line
        block += [
            (f"{finding.severity}[{finding.code}]", _STYLES[finding.severity]),
            (f" {finding.name}:", "bold"),
            (f" {show(finding.message)}\n", ""),
            (f"{gutter}--> ", _GUTTER),
            (f"{show(diagnostic.filename)}:{diagnostic.at}", ""),
        ]
        place = [show(finding.pointer)] if finding.pointer else []
        if finding.span:
            place.append(f"@{finding.span[0]}..{finding.span[1]}")
        if place:
            block.append(("  " + " ".join(place), "cyan"))

    def _source(
        self, block: _Block, diagnostic: Diagnostic, gutter: str, *, brief: bool = False
    ) -> None:
        assert diagnostic.snippet is not None
        source = excerpt(diagnostic.snippet, self._display, self._width - len(gutter) - len(" | "))
        above = "" if brief else f"\n{gutter} |"
        finding = diagnostic.finding
        refused = finding.code.startswith("MYP2") and finding.expected
        carets = "^" * source.carets + (" not allowed here" if refused else "")
        block += [
            (f"{above}\n{diagnostic.row} | ", _GUTTER),
            (f"{source.text}\n", ""),
            (f"{gutter} | ", _GUTTER),
            (" " * source.indent, ""),
            (carets, _STYLES[finding.severity]),
        ]


def _console(stream: TextIO, color: bool | None) -> Console | None:
    """Returns rich's view of a stream; None where it is plain, which needs no rich."""
    plain = not (stream.isatty() or any(map(os.environ.get, _FORCING)))
    if color is False or (color is None and plain):
        return None
    from rich.console import Console

    if color is None:
        return Console(file=stream)
    # The caller has chosen, so NO_COLOR and TERM do not count.
    return Console(file=stream, color_system="standard", force_terminal=True, no_color=False)
