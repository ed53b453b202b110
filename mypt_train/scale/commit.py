"""Makes a data set of the units of a plan: packs them into rows, writes shards and the manifest."""

import json
import shutil
from collections.abc import Callable, Sequence
from heapq import nsmallest
from typing import Any

import numpy as np

from mypt_cli.jsonl.blocks import Source
from mypt_cli.jsonl.names import MANIFEST, REJECTS, WORK
from mypt_cli.words import either
from mypt_lint.check.detect import elsewhere_than
from mypt_records.names import NAMES
from mypt_spec.dialect import detectable_dialects
from mypt_train.data.collection import Collection, Totals
from mypt_train.data.formats.manifest import SCHEMA, VERSIONS, Counts, dtype_of
from mypt_train.data.shards import write_splits
from mypt_train.data.templates import histories
from mypt_train.data.unit_files import REFUSED, Part
from mypt_train.scale.planning.plan import Plan, PlanError
from mypt_train.scale.planning.proof import SHA256, is_made

Progress = Callable[[str, float, int], None]
# The number of rejects that a refusal names.
_MAX_REJECTS = 3


def commit(plan: Plan, progress: Progress = lambda *_: None) -> dict[str, Any]:
    """Makes the data set of units that are all made; returns its manifest.

    The manifest is written last: until then, the folder is no data set. Where lines are refused,
    nothing but the rejects is left. `progress` is told of "writing", bytes of shards: how many are
    done, and how many there are. Raises UsageError and OSError.
    """
    collection = _collected(plan)
    plan.put(REJECTS, b"".join(collection.rejects))
    if why := _unwritable(plan, collection):
        _clean(plan)  # so that the same folder can be named again
        raise PlanError(why)
    wrote = _counting(collection, plan, progress)
    splits = write_splits(
        collection, plan.out, plan.options, wrote, weights=collection.totals.weights
    )
    manifest = _manifest(plan, collection.totals, splits)
    plan.put(MANIFEST, json.dumps(manifest, indent=1, sort_keys=True).encode() + b"\n")
    _clean(plan)
    return manifest


def _collected(plan: Plan) -> Collection:
    """Returns what all units hold. Raises PlanError for a unit that is damaged."""
    collection = Collection([source.path for source in plan.inputs], plan.options)
    for unit in range(len(plan.units)):
        path, at = plan.unit_file(unit), 0
        if not is_made(path):
            raise PlanError(f"{path}: is not as it was written; delete it and use --resume")
        end = path.stat().st_size - SHA256
        while at < end:
            at = collection.take(Part(path, at))
    return collection


def _counting(collection: Collection, plan: Plan, progress: Progress) -> Callable[[int], None]:
    """Returns what turns tokens that were written into bytes that are written of all."""
    width = np.dtype(dtype_of(plan.options.loaded_dialect.tokenizer.vocab_size)).itemsize + 1
    size = width * sum(p.length for items in collection.placed.values() for p in items)
    written = 0

    def wrote(tokens: int) -> None:
        nonlocal written
        written += width * tokens
        progress("writing", written, size)

    return wrote


def _unwritable(plan: Plan, collection: Collection) -> str:
    """Returns why no data set can be made of the units, with the first rejects; "" if one can."""
    options, totals, why = plan.options, collection.totals, ""
    lines, refused = totals.all["lines"], totals.all[REFUSED]
    if refused and options.on_error == "fail":
        why = (
            f"{refused} of {lines} lines are refused; repair them and run again, or run again "
            f"with --on-error reject{_misnamed(plan, totals)}"
        )
    elif not any(collection.placed.values()):
        why = f"nothing to write: none of {lines} lines is an episode"
    elif totals.weights and (options.format != "bin" or options.preferences):
        why = "messages have weights other than 0 and 1, and "
        why += (
            "preferences have no weights"
            if options.preferences
            else f"the format {options.format} has no place for weights; use --format bin"
        )
    return why and why + _reasons(collection.rejects, str(plan.out / REJECTS))


def _reasons(rejects: Sequence[bytes], path: str) -> str:
    """Returns the first findings of the rejects, a line each, and where all of them are.

    What is refused comes before what was dropped as wished.
    """
    lines, entries = [], map(json.loads, rejects)
    for entry in nsmallest(_MAX_REJECTS, entries, key=lambda e: e["status"] != REFUSED):
        first, others = entry["findings"][0], len(entry["findings"]) - 1
        tail = f" (and {others} more)" if others else ""
        lines.append(f"  {entry['file']}:{entry['line']}: {first['code']} {first['message']}{tail}")
    return "\n".join(["", *lines, f"all of them: {path}"]) if lines else ""


def _misnamed(plan: Plan, totals: Totals) -> str:
    """Returns a text that names the local inputs of another dialect than they are read as."""
    out = ""
    for number, source in enumerate(plan.inputs):
        account = totals.account_of(number)
        of_other_tools = dict(source.rules.values).get("records") in NAMES
        if source.local and 0 < account["lines"] == account[REFUSED] and not of_other_tools:
            one = Source(source.path, source.packing, source.bytes)
            others = elsewhere_than(one, plan.options.loaded_dialect, detectable_dialects())[0]
            if names := [dialect.name for dialect in others]:
                out += f"; {source.path} is {either(names)}: use --dialect {names[0]}"
    return out


def _manifest(
    plan: Plan, totals: Totals, splits: dict[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    if not totals.add_up:
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


def _clean(plan: Plan) -> None:
    """Removes what only preparing needs."""
    shutil.rmtree(plan.out / WORK, ignore_errors=True)
