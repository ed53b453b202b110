"""Says how far a plan is, and seals it: from then on, its units are known.

Everything is read from the store of the data set, so any machine says the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import msgspec

from mypt_cli.jsonl.names import MANIFEST, PLAN
from mypt_cli.run import in_threads
from mypt_cli.store import Store
from mypt_cli.store.store import suppress_missing
from mypt_cli.words import counted
from mypt_train.scale.launch import ranges
from mypt_train.scale.launch.queue import ATTEMPTS
from mypt_train.scale.planning import places
from mypt_train.scale.planning.plan import Plan, PlanError
from mypt_train.scale.unit.report import UnitReport, read_object, report_of, why

Progress = Callable[[str, float, int], None]
# The most reasons that a message names, and the logs that are looked at for them.
_MAX_REASONS, _MAX_LOGS = 3, 100


class UnfinishedError(PlanError):
    """Units are missing, so nothing can be committed; the message names them and what to do."""


@dataclass(frozen=True, slots=True)
class Status:
    """How far a plan is: units and groups that are made, and units that are set aside."""

    units: int
    groups: int
    complete: frozenset[int]
    aside: frozenset[int]
    failed: frozenset[int]
    packed: frozenset[int]
    sealed: bool
    committed: bool

    @property
    def missing(self) -> list[int]:
        """Returns the units that are neither made nor set aside."""
        return [n for n in range(self.units) if n not in self.complete and n not in self.aside]

    def lines(self, plan: Plan) -> list[str]:
        if self.committed:
            return [f"{plan.display_name}: is committed"]
        store, missing = plan.store(), self.missing
        out = [f"{plan.display_name}: {len(self.complete)} of {self.units} units are made"]
        if missing:
            tried = len(self.failed.intersection(missing))
            retries = f"; {tried} of them have failed, and are tried again" if tried else ""
            out.append(f"  missing: {ranges(missing)}{retries}")
            out.append(f"  next: mypt-prepare resume --plan {store.name(PLAN)}")
        if self.aside:
            out += [f"  set aside: {line}" for line in _reasons(plan, store, sorted(self.aside))]
            out.append(
                f"  all logs: {store.name(places.FAILED)}; {_remedy(plan, store, self.aside)}"
            )
        if self.sealed:
            out.append(f"  packed: {len(self.packed)} of {counted(self.groups, 'group')}")
        elif not missing and not self.aside:
            out.append(f"  next: mypt-prepare commit --plan {store.name(PLAN)}")
        return out


@dataclass(frozen=True, slots=True)
class Sealed:
    """The units that a data set is made of.

    `missing` are units that are left out, `pieces` for each unit its pieces as (number of the
    input, beginning, lines). `weights` says that some targets have weights.
    """

    plan: str
    missing: tuple[int, ...]
    lines: int
    refused: int
    samples: int
    weights: bool
    pieces: tuple[tuple[tuple[int, int, int], ...], ...]

    def before(self) -> dict[tuple[int, int], int]:
        """Returns for each piece, named by input and beginning, the lines before it in its input.

        A unit that is left out counts no lines.
        """
        pieces = sorted((file, start, lines) for unit in self.pieces for file, start, lines in unit)
        out: dict[tuple[int, int], int] = {}
        total, of = 0, -1
        for file, start, lines in pieces:
            total = total if file == of else 0
            out[file, start] = total
            total, of = total + lines, file
        return out


def status_of(plan: Plan) -> Status:
    """Returns how far a plan is, by what the store lists."""
    store = plan.store()

    def numbers(folder: str) -> list[int | None]:
        return [places.number_of(entry.key) for entry in store.entries(folder)]

    logs = [entry.key for entry in store.entries(places.FAILED)]
    complete = frozenset(n for n in numbers(places.UNITS) if n is not None)
    aside = {places.number_of(key) for key in logs if key.endswith(f"-{ATTEMPTS}.json")}
    return Status(
        len(plan.units),
        plan.groups,
        complete,
        frozenset(n for n in aside if n is not None and n not in complete),
        frozenset(n for n in map(places.number_of, logs) if n is not None and n not in complete),
        frozenset(n for n in numbers(places.GROUPS) if n is not None),
        store.exists(places.SEALED),
        store.exists(MANIFEST),
    )


def seal(plan: Plan, *, max_failed: int = 0, progress: Progress = lambda *_: None) -> Sealed:
    """Fixes which units the data set is made of, once and for all machines.

    `progress` is told how many units are counted. Raises UnfinishedError if units are not made yet,
    or more than `max_failed` or all are set aside; nothing is fixed then.
    """
    store = plan.store()
    if store.exists(places.SEALED):
        return _parsed(plan, store)
    sealed = counted_up(plan, max_failed=max_failed, progress=progress)
    if store.put_if_absent(places.SEALED, msgspec.json.encode(sealed)):
        return sealed
    return _parsed(plan, store)


def counted_up(plan: Plan, *, max_failed: int = 0, progress: Progress = lambda *_: None) -> Sealed:
    """Returns the units that are made now, if these are enough. Raises UnfinishedError."""
    store = plan.store()
    reports = []
    for report in in_threads(lambda n: report_there(store, n), range(len(plan.units))):
        reports.append(report)
        progress("counting", len(reports), len(plan.units))
    missing = [number for number, report in enumerate(reports) if report is None]
    if missing:
        _refuse(plan, store, missing, max_failed)
    complete = [report for report in reports if report is not None]
    return Sealed(
        plan.sha256,
        tuple(missing),
        sum(report.lines for report in complete),
        sum(report.refused for report in complete),
        sum(report.samples for report in complete),
        any(report.weights for report in complete),
        tuple(_pieces(report) for report in reports),
    )


def _parsed(plan: Plan, store: Store) -> Sealed:
    sealed = read_object(store, places.SEALED, msgspec.json.Decoder(Sealed).decode)
    if sealed.plan != plan.sha256:
        raise PlanError(f"{store.name(places.SEALED)}: belongs to another plan; name that one")
    return sealed


def report_there(store: Store, number: int) -> UnitReport | None:
    """Returns the report of a unit, which is None if the unit is not made."""
    with suppress_missing():
        return report_of(store, number)
    return None


def _pieces(report: UnitReport | None) -> tuple[tuple[int, int, int], ...]:
    lines = Counter[tuple[int, int]]()
    for part in report.parts if report else ():
        lines[part.file, part.piece] += part.lines
    return tuple((*key, n) for key, n in lines.items())


def _refuse(plan: Plan, store: Store, missing: Sequence[int], max_failed: int) -> None:
    """Raises UnfinishedError unless all missing units may be left out."""
    aside = [n for n in missing if store.exists(places.failed(n, ATTEMPTS))]
    unmade = sorted({*missing} - {*aside})
    if unmade:
        raise UnfinishedError(
            f"{len(unmade)} of {len(plan.units)} units are not made yet ({ranges(unmade)}); make "
            f"them with mypt-prepare resume --plan {store.name(PLAN)}"
        )
    if len(aside) > max_failed or len(aside) == len(plan.units):
        most = f"at most {max_failed} may be missing"
        if len(aside) == len(plan.units):
            most = "and no other is there to commit"
        reasons = "".join(f"\n  {line}" for line in _reasons(plan, store, aside))
        raise UnfinishedError(
            f"{counted(len(aside), 'unit')} set aside, {most}:{reasons}"
            f"\nall logs: {store.name(places.FAILED)}; {_remedy(plan, store, aside)}"
        )


def _reasons(plan: Plan, store: Store, units: Sequence[int]) -> list[str]:
    """Returns why units are set aside: each reason once with its units and, if it names none, their
    input. It is looked for in the first logs only.
    """
    reasons = in_threads(lambda n: why(store, n), units[:_MAX_LOGS])
    of: dict[str, list[int]] = {}
    for number, reason in zip(units, reasons, strict=False):
        names_input = plan.inputs[plan.units[number][0].file].path in reason
        place = "" if names_input else f" ({plan.names(number)})"
        of.setdefault(f"{place}: {reason}", []).append(number)
    out = [
        f"unit{'s' * (len(numbers) > 1)} {ranges(numbers)}{reason}"
        for reason, numbers in [*of.items()][:_MAX_REASONS]
    ]
    remaining = len(units) - sum(len(numbers) for numbers in [*of.values()][:_MAX_REASONS])
    return [*out, f"{counted(remaining, 'unit')} more"] if remaining else out


def _remedy(plan: Plan, store: Store, aside: Collection[int]) -> str:
    path = store.name(PLAN)
    again = f"try them again with mypt-prepare resume --plan {path} --again"
    if len(aside) == len(plan.units):
        return again
    leave = f"mypt-prepare commit --plan {path} --max-failed-units {len(aside)}"
    return f"{again}, or leave them out with {leave}"
