"""Lays out styled runs of text in rows of terminal cells.

Every character is shown, none is obeyed by the terminal, and nothing is lost at a line's end.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from mypt_cli.terminal import HIDDEN, Display
from mypt_lint.report.excerpt import clusters


class Run(NamedTuple):
    """Text in one style. `mark` is printed under it where there is no colour."""

    text: str
    style: str = ""
    mark: str = " "


class Unit(NamedTuple):
    """What stays together in a row: a character with its accents, or one escape."""

    text: str
    width: int
    style: str
    mark: str


@dataclass(slots=True)
class Row:
    """One row. `width` counts cells."""

    units: list[Unit] = field(default_factory=list)
    width: int = 0

    def runs(self) -> Iterator[tuple[str, str]]:
        """Yields (text, style), with neighbours of one style joined."""
        for style, group in groupby(self.units, key=lambda unit: unit.style):
            yield "".join(unit.text for unit in group), style

    @property
    def marks(self) -> str:
        """Returns the marks under the row, without white space at their end."""
        return "".join(unit.mark * unit.width for unit in self.units).rstrip()


def rows(runs: Iterable[Run], width: int, display: Display, *, ends: bool = False) -> list[Row]:
    """Returns rows of at most `width` cells, broken after spaces; `ends` shows line ends."""
    out = [Row()]
    space = 0  # units up to the last place where the row may be broken
    for unit in _units(runs, display, ends):
        if unit.text == "\n":
            out.append(Row())
            space = 0
            continue
        while (row := out[-1]).units and row.width + unit.width > width:
            tail = row.units[space:] if space else []
            if tail:
                del row.units[space:]
                row.width -= sum(u.width for u in tail)
            out.append(Row(tail, sum(u.width for u in tail)))
            space = 0
        row.units.append(unit)
        row.width += unit.width
        if unit.text == " ":
            space = len(row.units)
    return out


def _units(runs: Iterable[Run], display: Display, ends: bool) -> Iterator[Unit]:
    r"""Yields the units of all runs; "\n" alone ends a row."""
    for run in runs:
        lines = run.text.split("\n")
        for n, line in enumerate(lines):
            if line.isascii() and not HIDDEN.search(line):
                yield from (Unit(char, 1, run.style, run.mark) for char in line)
            else:
                yield from (
                    Unit(c.text, c.width, run.style, run.mark) for c in clusters(line, display)
                )
            if n + 1 < len(lines):
                if ends:
                    yield Unit(display.newline, len(display.newline), run.style, run.mark)
                yield Unit("\n", 0, "", "")
