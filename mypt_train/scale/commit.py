"""Makes a data set of the units of a plan: packs what is not packed yet, and puts the manifest.

The manifest is put only if there is none, in one step, so of several committers one succeeds and
the others are told so. Until then the folder is no data set; all before it may be repeated.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from mypt_cli.jsonl.blocks import Source
from mypt_cli.jsonl.names import MANIFEST, REJECTS, WORK
from mypt_cli.run import in_threads
from mypt_cli.store import Store, StoreError, is_url
from mypt_cli.words import either
from mypt_lint.check.detect import elsewhere_than
from mypt_records.names import NAMES
from mypt_spec.dialect import detectable_dialects
from mypt_train.data.collection import SPLITS, Totals, rejected
from mypt_train.data.formats.manifest import SCHEMA, VERSIONS, Counts, dtype_of
from mypt_train.data.templates import histories
from mypt_train.data.unit_files import REFUSED, UnitFile
from mypt_train.scale import repeats
from mypt_train.scale.groups import GroupReport, make_group
from mypt_train.scale.planning import places
from mypt_train.scale.planning.plan import Plan, PlanError
from mypt_train.scale.processes import KilledError, outcomes
from mypt_train.scale.state import Progress, UnitCounts, counted_up
from mypt_train.scale.unit.report import read_object, report_of

# The number of rejects that a refusal names.
_MAX_REJECTS = 3


@dataclass(frozen=True, slots=True)
class Committed:
    """A data set that is there. `first`: this call has put its manifest."""

    manifest: dict[str, Any]
    first: bool


def commit(plan: Plan, *, jobs: int = 1, progress: Progress = lambda *_: None) -> Committed:
    """Makes the data set; returns its manifest, and whether this call has put it.

    `jobs` processes pack the groups. `progress` is told what is done ("counting" units, "comparing"
    and "packing", "tidying"), how much of it, and how much there is.
    Raises PlanError (also for a folder that holds another data set), StoreError and OSError.
    """
    store = plan.store()
    manifest, first = _there(plan, store), False
    if manifest is None:
        try:
            counts = counted_up(plan, progress=progress)
            _refuse_unwritable(plan, store, counts)
            _pack(plan, store, counts, jobs, progress)
            about = {"sha256": plan.sha256, "units": len(plan.units), "groups": plan.groups}
            manifest = _manifest(plan, store, counts) | {"plan": about}
            first = store.put_if_absent(MANIFEST, _dumped(manifest))
            manifest = manifest if first else _there(plan, store) or manifest
        except (StoreError, OSError):
            manifest = _there(plan, store)  # another has committed, and has cleaned up
            if manifest is None:
                raise
    clean(plan, store, progress)  # also after a commit that was killed before it did so
    return Committed(manifest, first)


def _pack(plan: Plan, store: Store, counts: UnitCounts, jobs: int, progress: Progress) -> None:
    """Makes the groups that are not there. Raises what stopped one."""

    def comparing(_: str, done: float, total: int) -> None:
        progress("comparing", done, total)

    if repeats.needed(plan) and not store.exists(places.repeats(plan.groups - 1)):
        repeats.find(plan, counts, comparing)
    todo = [number for number in range(plan.groups) if not store.exists(places.group(number))]
    try:
        done = plan.groups - len(todo)
        for _, outcome in outcomes(plan, partial(make_group, plan, counts), todo, jobs):
            if isinstance(outcome, Exception):
                raise outcome
            done += 1
            progress("packing", done, plan.groups)
    except KilledError as error:
        raise PlanError(f"{error}; go on with the same command") from None


def commit_alone(plan: Plan, progress: Progress) -> dict[str, Any]:
    """Makes the data set of a plan that nobody else follows, in a local folder.

    Returns its manifest. Nothing is put only if absent, which not every disk can. Where lines are
    refused, nothing but the rejects is left. `progress` is told of "writing". Raises PlanError,
    StoreError and OSError.
    """
    store = plan.store()
    counts = counted_up(plan)
    try:
        _refuse_unwritable(plan, store, counts)
    except PlanError:
        clean(plan, store)  # so that the same folder can be named again
        raise

    def writing(stage: str, done: float, total: int) -> None:
        if stage == "writing":
            progress(stage, done, total)

    make_group(plan, counts, 0, writing)
    manifest = _manifest(plan, store, counts)
    plan.put(MANIFEST, _dumped(manifest))
    clean(plan, store)
    return manifest


def _there(plan: Plan, store: Store) -> dict[str, Any] | None:
    """Returns the manifest that is there already. Raises PlanError for one of another plan."""
    if not store.exists(MANIFEST):
        return None
    manifest: dict[str, Any] = read_object(store, MANIFEST, json.loads)
    if manifest.get("plan", {}).get("sha256") != plan.sha256:
        raise PlanError(
            f"{store.name(MANIFEST)}: a data set of another plan is there; plan for another folder"
        )
    return manifest


def _refuse_unwritable(plan: Plan, store: Store, counts: UnitCounts) -> None:
    """Raises PlanError if no data set can be made of the units."""
    options, why = plan.options, ""
    if counts.refused and options.on_error == "fail":
        again = "run again" if plan.alone else "plan again"
        why = (
            f"{counts.refused} of {counts.lines} lines are refused; repair them and {again}, or "
            f"{again} with --on-error reject"
        )
    elif not counts.samples:
        why = f"nothing to write: none of {counts.lines} lines is an episode"
    elif counts.weights and (options.format != "bin" or options.preferences):
        why = "messages have weights other than 0 and 1, and "
        why += (
            "preferences have no weights"
            if options.preferences
            else f"the format {options.format} has no place for weights; use --format bin"
        )
    if why:
        rejects = _rejects(plan, store, counts, every=plan.alone)
        plan.put(REJECTS, b"".join(rejects))
        if counts.refused and options.on_error == "fail":
            why += _misnamed(plan, counts, rejects)
        raise PlanError(why + _reasons(rejects, store.name(REJECTS)))


def _reasons(rejects: Sequence[bytes], path: str) -> str:
    """Returns the first findings of the rejects, a line each, and where all of them are."""
    lines = []
    for entry in map(json.loads, rejects[:_MAX_REJECTS]):
        first, others = entry["findings"][0], len(entry["findings"]) - 1
        tail = f" (and {others} more)" if others else ""
        lines.append(f"  {entry['file']}:{entry['line']}: {first['code']} {first['message']}{tail}")
    return "\n".join(["", *lines, f"all of them: {path}"]) if lines else ""


def _misnamed(plan: Plan, counts: UnitCounts, rejects: Sequence[bytes]) -> str:
    """Returns a text that names the local inputs of another dialect than they are read as."""
    entries = map(json.loads, rejects)
    refused = Counter(entry["file"] for entry in entries if entry["status"] == REFUSED)
    lines = Counter[str]()
    for file, _, count in (piece for unit in counts.pieces for piece in unit):
        lines[plan.inputs[file].path] += count
    out = ""
    for source in plan.inputs:
        of_other_tools = dict(source.rules.values).get("records") in NAMES
        if source.local and 0 < lines[source.path] == refused[source.path] and not of_other_tools:
            one = Source(source.path, source.packing, source.bytes)
            others = elsewhere_than(one, plan.options.loaded_dialect, detectable_dialects())[0]
            if names := [dialect.name for dialect in others]:
                out += f"; {source.path} is {either(names)}: use --dialect {names[0]}"
    return out


def _manifest(plan: Plan, store: Store, counts: UnitCounts) -> dict[str, Any]:
    totals = Totals()
    splits: dict[str, list[dict[str, Any]]] = {name: [] for name in SPLITS}
    keys, parse = map(places.group, range(plan.groups)), msgspec.json.Decoder(GroupReport).decode
    for report in in_threads(lambda key: read_object(store, key, parse), keys):
        totals.add(report.totals)
        for name, shards in report.splits.items():
            splits[name] += shards
    if not totals.add_up or totals.all["lines"] != counts.lines:
        raise PlanError(f"the lines do not add up: {totals.all}; please report this")
    options, dialect = plan.options, plan.options.loaded_dialect
    for name, content in dialect.all_files.items():
        plan.put(name, content)
    dtype = dtype_of(dialect.tokenizer.vocab_size)
    named = {} if options.model else {"dialect": dialect.name}
    masked = {"mask": options.episode_mask} if options.history == "per-turn" else {}
    out = {
        "schema": SCHEMA,
        "version": VERSIONS[dtype],
        "has_loss_mask": True,
        "dtype": dtype,
        "mask_dtype": "uint8",
        "byteorder": "little",
        "pad_id": dialect.tokenizer.pad,
        "vocab_size": dialect.tokenizer.vocab_size,
        "special_ids": dict(dialect.tokenizer.special),
        "spec_fingerprint": dialect.fingerprint,
        "vocabulary_sha256": dialect.tokenizer.files,
        "options": options.as_dict() | named | masked,
        "inputs": [
            source.described() | totals.account_of(number)
            for number, source in enumerate(plan.inputs)
        ],
        "lines": totals.all,
        "tags": dict(sorted(totals.tags.items())),
        "splits": {
            name: {key: sum(shard[key] for shard in shards) for key in Counts.__annotations__}
            | {"shards": shards}
            for name, shards in splits.items()
        },
    }
    if totals.warnings:
        out["warnings"] = dict(sorted(totals.warnings.items()))
    if totals.weighed:
        out["weighed"] = totals.weighed
    if totals.history:
        out["history"] = histories.reported(totals.history)
    if totals.weights:
        out["weights_dtype"] = "float32"
    return out


def _dumped(manifest: Mapping[str, Any]) -> bytes:
    return json.dumps(manifest, indent=1, sort_keys=True).encode() + b"\n"


def _rejects(plan: Plan, store: Store, counts: UnitCounts, *, every: bool) -> list[bytes]:
    """Returns the lines that are refused, as the file of rejects has them.

    Lines that are too long are among them, with `every` also those of units that refuse none.
    """
    before, out = counts.before(), []
    for unit in range(len(plan.units)):
        report = report_of(store, unit)
        if not (every or report.refused):
            continue
        with store.open(places.unit(unit), ahead=False) as stream:
            for part in report.parts:
                stream.seek(part.at)
                name, base = plan.inputs[part.file].path, before[part.file, part.piece]
                rejects = UnitFile.read(stream).head["rejects"]
                out += [rejected(name, base, reject) for reject in rejects]
    return out


def clean(plan: Plan, store: Store, progress: Progress = lambda *_: None) -> None:
    """Removes what only preparing needs. `progress` is told of objects."""
    if not is_url(plan.out):
        shutil.rmtree(Path(plan.out, WORK), ignore_errors=True)
        return
    keys = [entry.key for entry in store.entries(WORK)]
    for done, _ in enumerate(in_threads(store.delete, keys), 1):
        progress("tidying", done, len(keys))
