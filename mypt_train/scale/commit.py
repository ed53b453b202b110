"""Makes a data set of the units of a plan: packs what is not packed yet, and puts the manifest.

The manifest is put only if there is none, in one step, so of several committers one succeeds and
the others are told so. Until then the folder is no data set; all before it may be repeated.
"""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mypt_cli.jsonl.paths import MANIFEST
from mypt_cli.store import Store, StoreError, is_url
from mypt_train.data.assembly.collection import SPLITS, rejected
from mypt_train.data.assembly.summary import dumped, manifest, reasons, unwritable
from mypt_train.data.assembly.totals import Totals
from mypt_train.data.prepare import REJECTS, settings_of
from mypt_train.data.units import UnitFile
from mypt_train.scale import places
from mypt_train.scale.groups import GroupReport
from mypt_train.scale.launch.queue import MakeEngine
from mypt_train.scale.plan import Plan, PlanError
from mypt_train.scale.run import report_of
from mypt_train.scale.stages import Progress, make_tasks
from mypt_train.scale.state import Sealed, seal

_THREADS = 16


@dataclass(frozen=True, slots=True)
class Committed:
    """A data set that is there. `first`: this call has put its manifest."""

    manifest: dict[str, Any]
    first: bool


def commit(
    plan: Plan,
    *,
    max_failed: int = 0,
    path: str = "",
    engine: MakeEngine | None = None,
    progress: Progress = lambda *_: None,
) -> Committed:
    """Makes the data set; returns its manifest, and whether this call has put it.

    At most `max_failed` units that are set aside may be missing; the manifest then names them.
    What is to be done before the manifest is done here, or by an `engine`, which reads the plan at
    `path`.
    Raises UnfinishedError, PlanError (also for a folder that holds another data set), StoreError
    and OSError.
    """
    store = plan.store()
    made, first = _there(plan, store), False
    if made is None:
        try:
            sealed = seal(plan, max_failed=max_failed)
            _refuse_refused(plan, store, sealed)
            make_tasks(plan, sealed, path, engine, progress)
            made = _manifest(plan, store, sealed)
            first = store.put_if_absent(MANIFEST, dumped(made))
            made = made if first else _there(plan, store) or made
        except (StoreError, OSError):
            made = _there(plan, store)  # another has committed, and has cleaned up
            if made is None:
                raise
    clean(plan, store)  # also after a commit that was killed before it did so
    return Committed(made, first)


def _there(plan: Plan, store: Store) -> dict[str, Any] | None:
    """Returns the manifest that is there already. Raises PlanError for one of another plan."""
    if not store.exists(MANIFEST):
        return None
    found: dict[str, Any] = json.loads(store.read(MANIFEST))
    if found.get("plan", {}).get("sha256") != plan.sha256:
        raise PlanError(
            f"{store.name(MANIFEST)}: a data set of another plan is there; plan for another folder"
        )
    return found


def _refuse_refused(plan: Plan, store: Store, sealed: Sealed) -> None:
    """Raises PlanError if lines are refused and none may be."""
    if sealed.refused and plan.options.on_error == "fail":
        found = _rejects(plan, store, sealed)
        store.put(REJECTS, b"".join(found))
        raise PlanError(
            f"{sealed.refused} of {sealed.lines} lines are refused; repair them and plan again, or "
            f"plan again with --on-error reject{reasons(found, store.name(REJECTS))}"
        )


def _manifest(plan: Plan, store: Store, sealed: Sealed) -> dict[str, Any]:
    """Returns the manifest of what the groups hold."""
    totals = Totals()
    splits: dict[str, list[dict[str, Any]]] = {name: [] for name in SPLITS}
    for number in range(plan.groups):
        report = GroupReport.parsed(store.read(places.group(number)))
        totals.add(report.totals)
        for name, shards in report.splits.items():
            splits[name] += shards
    if not totals.add_up or totals.all.lines != sealed.lines:
        raise PlanError(f"the lines do not add up: {totals.all.as_dict()}; please report this")
    if why := unwritable(totals, plan.options):
        raise PlanError(why)
    for name, content in plan.options.loaded_dialect.kept.items():
        store.put(name, content)
    inputs = [
        {"path": source.path}
        | ({"sha256": source.sha256} if source.local else {"etag": source.etag})
        | settings_of(source.rules)
        for source in plan.inputs
    ]
    made = manifest(inputs, plan.options, totals, splits)
    made["plan"] = {
        "sha256": plan.sha256,
        "units": len(plan.units),
        "groups": plan.groups,
        "missing": _missing(plan, sealed),
    }
    return made


def _missing(plan: Plan, sealed: Sealed) -> list[dict[str, Any]]:
    """Returns what the manifest says of the units that are left out.

    `after_line` is the number of lines of the input that were read before the missing piece. Lines
    after it are counted on from there.
    """
    known = sorted((*key, n) for unit in sealed.pieces for *key, n in unit)
    return [
        {
            "unit": number,
            "pieces": [
                {
                    "path": plan.inputs[piece.file].path,
                    "cut": plan.inputs[piece.file].cut,
                    "start": piece.start,
                    "end": piece.end,
                    "after_line": sum(
                        n for file, at, n in known if file == piece.file and at < piece.start
                    ),
                }
                for piece in plan.units[number]
            ],
        }
        for number in sealed.missing
    ]


def _rejects(plan: Plan, store: Store, sealed: Sealed) -> list[bytes]:
    """Returns all lines that are refused or too long, as the file of rejects has them."""
    before, out = sealed.before(), []
    for unit in range(len(plan.units)):
        if unit in sealed.missing or not (report := report_of(store, unit)).refused:
            continue
        with store.open(places.unit(unit), ahead=0) as stream:
            for part in report.parts:
                stream.seek(part.at)
                name, base = plan.inputs[part.file].path, before[part.file, part.piece]
                found = UnitFile.read(stream).head["rejects"]
                out += [rejected(name, base, reject) for reject in found]
    return out


def clean(plan: Plan, store: Store) -> None:
    """Removes what only preparing needs."""
    if not is_url(plan.out):
        shutil.rmtree(Path(plan.out, places.WORK), ignore_errors=True)
        return
    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(store.delete, [entry.key for entry in store.entries(places.WORK)]))
