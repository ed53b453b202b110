"""Makes units of a plan by an engine, and counts what became of them.

Input: a plan, where it is, and numbers of units. Output: units in the store of the data set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial

from mypt_cli.words import counted
from mypt_train.scale.attempts import forgive, make_planned, note
from mypt_train.scale.launch.local import Local
from mypt_train.scale.launch.queue import ATTEMPTS, Ended, Engine, MakeEngine, attempts
from mypt_train.scale.planning import places
from mypt_train.scale.planning.plan import Plan, PlanError
from mypt_train.scale.unit.report import why

_KILLED = "its process was killed"


@dataclass(slots=True)
class UnitOutcomes:
    """What became of units: made now, there before, or set aside."""

    built: list[int] = field(default_factory=list)
    there: list[int] = field(default_factory=list)
    aside: list[int] = field(default_factory=list)

    def summary(self) -> str:
        """Returns this in words."""
        suffix = f", {len(self.there)} there before" if self.there else ""
        suffix += f", {len(self.aside)} set aside" if self.aside else ""
        return f"{counted(len(self.built), 'unit')} made{suffix}"


class Here:
    """An engine that runs units in this process, one after the other."""

    slots = 1

    def __init__(self, do: Callable[[int], object]) -> None:
        self._do, self._unit = do, 0

    def start(self, unit: int) -> None:
        self._unit = unit

    def ended(self) -> Ended:
        try:
            return Ended(self._unit, self._do(self._unit))
        except Exception as error:
            return Ended(self._unit, error=f"{type(error).__name__}: {error}")


def here(do: Callable[[int], object], jobs: int) -> AbstractContextManager[Engine]:
    """Returns an engine of `jobs` processes of this machine; of one, it is this process."""
    return Local(do, jobs) if jobs > 1 else nullcontext(Here(do))


def drive(
    plan: Plan,
    path: str,
    units: Iterable[int],
    *,
    jobs: int = 1,
    again: bool = False,
    engine: MakeEngine | None = None,
    say: Callable[[str], None] = lambda _: None,
    progress: Callable[[int], None] = lambda _: None,
) -> UnitOutcomes:
    """Makes units; `path` is where the plan is, for processes and machines to read it.

    By default `jobs` processes of this machine make them, or what `engine` returns. With `again`,
    units that are set aside are tried again. `say` is told what fails, and `progress` how many
    units are done. Raises PlanError for a number of processes below 1, and StoreError where the
    store of the data set fails.
    """
    if jobs < 1:
        raise PlanError(f"--jobs is {jobs}, expected 1 or more")
    store, out, numbers = plan.store(), UnitOutcomes(), [*units]
    if again:
        for number in numbers:
            forgive(plan, number)
    do, done = partial(make_planned, path, plan.sha256), 0
    with engine(do) if engine else here(do, jobs) as running:
        for attempt in attempts(numbers, running):
            number = attempt.unit
            done += attempt.last
            progress(done)
            if not attempt.error:
                (out.there if attempt.result is None else out.built).append(number)
                continue
            if attempt.error.startswith(_KILLED):
                note(plan, number, PlanError(attempt.error))
            if attempt.last:
                out.aside.append(number)
                aside = store.exists(places.failed(number, ATTEMPTS))
                say(f"unit {number} is set aside: {why(store, number) if aside else attempt.error}")
    return out
