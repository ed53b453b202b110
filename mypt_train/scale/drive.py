"""Makes units of a plan by an engine, and sets a unit aside that fails three times.

Input: a plan, where it is, and numbers of units. Output: units in the store of the data set, or a
log of why a unit failed, one object for each failure. So all machines count the same failures,
whoever launched them, and a person can read the reasons.
"""

import json
import traceback
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mypt_cli.errors import UsageError
from mypt_cli.jsonl.names import MANIFEST
from mypt_cli.store import StoreError
from mypt_cli.words import counted
from mypt_train.scale.launch.local import Local
from mypt_train.scale.launch.queue import ATTEMPTS, Ended, Engine, MakeEngine, attempts
from mypt_train.scale.planning import places
from mypt_train.scale.planning.plan import Plan, PlanError, plan_with_hash
from mypt_train.scale.planning.proof import ChangedError
from mypt_train.scale.run import run_unit
from mypt_train.scale.unit.report import UnitReport, why

_KILLED = "its process was killed"
_FINAL = ("changed", "missing")  # faults of a store that do not pass
_OURS = "mypt_"


@dataclass(slots=True)
class UnitOutcomes:
    """What became of units: made now, there before, or set aside."""

    built: list[int] = field(default_factory=list)
    there: list[int] = field(default_factory=list)
    aside: list[int] = field(default_factory=list)

    def summary(self) -> str:
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


class AsideError(UsageError):
    """A unit has failed three times, or cannot succeed; the message says why it failed."""


def make(plan: Plan, number: int) -> UnitReport | None:
    """Makes a unit; returns None if it is there already, or the data set is.

    Raises AsideError if it is set aside, and whatever it fails with, which is then logged.
    """
    store = plan.store()
    if store.exists(places.report(number)) or store.exists(MANIFEST):
        return None
    if store.exists(places.failed(number, ATTEMPTS)):
        raise AsideError(f"unit {number} is set aside: {why(store, number)}")
    try:
        return run_unit(plan, number)
    except Exception as error:
        note(plan, number, error)
        raise


def make_planned(path: str, sha256: str, number: int) -> UnitReport | None:
    """Makes a unit of the plan in a file, for engines that run a function of a number elsewhere.

    Raises PlanError if the plan there is not the one with this hash.
    """
    return make(plan_with_hash(path, sha256), number)


def note(plan: Plan, number: int, error: Exception) -> None:
    """Logs why a unit has failed.

    The message of a library may hold a URL with its signature, so only ours are written.
    """
    store = plan.store()
    final = isinstance(error, ChangedError) or (
        isinstance(error, StoreError) and error.kind in _FINAL
    )
    tried = next(
        (n for n in range(1, ATTEMPTS) if not final and not store.exists(places.failed(number, n))),
        ATTEMPTS,
    )
    ours = type(error).__module__.startswith(_OURS) or isinstance(error, OSError)
    frames = traceback.extract_tb(error.__traceback__)
    entry: dict[str, Any] = {
        "unit": number,
        "tried": tried,
        "inputs": [
            {"path": plan.inputs[p.file].path, "start": p.start, "end": p.end}
            for p in plan.units[number]
        ],
        "error": str(error) if ours else f"{type(error).__name__}; the log says where",
        "type": type(error).__name__,
        "place": [f"{frame.name}, line {frame.lineno} of {frame.filename}" for frame in frames],
    }
    store.put(places.failed(number, tried), json.dumps(entry, indent=1).encode() + b"\n")


def forgive(plan: Plan, number: int) -> None:
    """Removes the logs of a unit, so that it may be tried again."""
    store = plan.store()
    for tried in range(1, ATTEMPTS + 1):
        store.delete(places.failed(number, tried))
