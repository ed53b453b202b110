"""Says how far a plan is, and what its units hold together.

Everything is read from the store of the data set, so any machine says the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

from mypt_cli.jsonl.names import PLAN
from mypt_cli.run import in_threads
from mypt_cli.store import Store
from mypt_cli.store.store import suppress_missing
from mypt_train.scale.planning import places
from mypt_train.scale.planning.plan import Plan, PlanError
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


def missing_units(plan: Plan) -> list[int]:
    """Returns the units that are not made, by what the store lists."""
    numbers = {places.number_of(entry.key) for entry in plan.store().entries(places.UNITS)}
    return [number for number in range(len(plan.units)) if number not in numbers]


def counted_up(plan: Plan, *, progress: Progress = lambda *_: None) -> UnitCounts:
    """Returns what the units hold; `progress` is told how many are counted.

    Raises PlanError, which names the units that are not made yet.
    """
    store, reports = plan.store(), list[UnitReport | None]()
    for report in in_threads(lambda n: report_there(store, n), range(len(plan.units))):
        reports.append(report)
        progress("counting", len(reports), len(plan.units))
    if missing := [number for number, report in enumerate(reports) if report is None]:
        raise PlanError(
            f"{len(missing)} of {len(plan.units)} units are not made yet ({ranges(missing)}); make "
            f"them with mypt-prepare run --plan {store.name(PLAN)}"
        )
    complete = [report for report in reports if report is not None]
    return UnitCounts(
        sum(report.lines for report in complete),
        sum(report.refused for report in complete),
        sum(report.samples for report in complete),
        any(report.weights for report in complete),
        tuple(map(_pieces, complete)),
    )


def report_there(store: Store, number: int) -> UnitReport | None:
    """Returns the report of a unit, which is None if the unit is not made."""
    with suppress_missing():
        return report_of(store, number)
    return None


def ranges(numbers: Iterable[int]) -> str:
    """Returns numbers as ranges, smallest first.

    >>> ranges([7, 0, 1, 2, 9, 10])
    '0-2,7,9-10'
    """
    ordered = sorted(set(numbers))
    begins = [b for a, b in pairwise([-2, *ordered]) if b != a + 1]
    ends = [a for a, b in pairwise([*ordered, ordered[-1] + 2]) if b != a + 1] if ordered else []
    texts = (f"{a}-{b}" if a != b else f"{a}" for a, b in zip(begins, ends, strict=True))
    return ",".join(texts)


def _pieces(report: UnitReport) -> tuple[tuple[int, int, int], ...]:
    lines = Counter[tuple[int, int]]()
    for part in report.parts:
        lines[part.file, part.piece] += part.lines
    return tuple((*key, n) for key, n in lines.items())
