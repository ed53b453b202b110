"""Counts what the units of a plan hold together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from mypt_train.scale.planning.plan import Plan
from mypt_train.scale.unit.report import UnitReport, report_of

Progress = Callable[[str, float, int], None]


@dataclass(frozen=True, slots=True)
class UnitCounts:
    """What the units of a plan hold together.

    `pieces` has for each unit its pieces as (number of the input, beginning, lines). `weights` says
    that some targets have weights.
    """

    lines: int
    refused: int
    samples: int
    weights: bool
    pieces: tuple[tuple[tuple[int, int, int], ...], ...]

    def before(self) -> dict[tuple[int, int], int]:
        """Returns the lines before each piece in its input; keys are (input, beginning)."""
        pieces = sorted((file, start, lines) for unit in self.pieces for file, start, lines in unit)
        out: dict[tuple[int, int], int] = {}
        total, of = 0, -1
        for file, start, lines in pieces:
            total = total if file == of else 0
            out[file, start] = total
            total, of = total + lines, file
        return out


def counted_up(plan: Plan) -> UnitCounts:
    """Returns what the units hold, which are all made. Raises UsageError and OSError."""
    reports = [report_of(plan.out, number) for number in range(len(plan.units))]
    return UnitCounts(
        sum(report.lines for report in reports),
        sum(report.refused for report in reports),
        sum(report.samples for report in reports),
        any(report.weights for report in reports),
        tuple(map(_pieces, reports)),
    )


def _pieces(report: UnitReport) -> tuple[tuple[int, int, int], ...]:
    lines = Counter[tuple[int, int]]()
    for part in report.parts:
        lines[part.file, part.piece] += part.lines
    return tuple((*key, n) for key, n in lines.items())
