"""Makes units that are not there yet, and sets a unit aside that fails three times.

Input: a plan and the number of a unit. Output: the unit in the store of the data set, or a log of
why it failed, one object for each failure. So all machines count the same failures, whoever
launched them, and a person can read the reasons.
"""

from __future__ import annotations

import json
import traceback
from typing import Any

from mypt_cli.errors import UsageError
from mypt_cli.jsonl.names import MANIFEST
from mypt_cli.store import StoreError
from mypt_train.scale.launch.queue import ATTEMPTS
from mypt_train.scale.planning import places
from mypt_train.scale.planning.plan import Plan, plan_with_hash
from mypt_train.scale.planning.proof import ChangedError
from mypt_train.scale.run import run_unit
from mypt_train.scale.unit.report import UnitReport, why

_FINAL = ("changed", "missing")  # faults of a store that do not pass
_OURS = "mypt_"


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
