"""Makes a data set of JSONL: lints, encodes, masks, packs and writes.

Input: files of records, or objects of a store. Output: a folder of shards with a manifest, whole or
not there; and `rejects.jsonl`. Each line is accounted for (invariant 5 of ARCHITECTURE.md).
`docs/toolcall_sft.md` describes the files.

A plan pins the inputs and cuts them into small units, which processes that are copies of this one
make. A run that was killed makes the units that are missing, and the number of processes changes no
byte.
"""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mypt_cli import atomic
from mypt_cli.errors import UsageError
from mypt_cli.jsonl.blocks import Source
from mypt_cli.jsonl.names import MANIFEST, PLAN, REJECTS, WORK
from mypt_cli.store import StoreError
from mypt_lint.settings.settings import Settings
from mypt_spec.tokenizer.vocabulary import VocabularyError
from mypt_train.data.formats.options import Options
from mypt_train.data.units import SIZE
from mypt_train.scale.commit import Progress, commit
from mypt_train.scale.planning.plan import Plan, dumped, make_plan
from mypt_train.scale.planning.proof import ChangedError, is_made
from mypt_train.scale.processes import KilledError, outcomes
from mypt_train.scale.run import run_unit

# Bytes of a unit of objects: their beginnings cost a request each, and some that are read ahead.
_FAR = 32 << 20


class PrepareError(Exception):
    """A data set cannot be made; the message says why and what to do.

    No folder that could be taken for a data set is left.
    """


def prepare(
    sources: list[Source],
    out: Path,
    options: Options,
    *,
    rules: Sequence[Settings] = (),
    workers: int = 1,
    resume: bool = False,
    unit_size: int | None = None,
    progress: Progress = lambda *_: None,
) -> dict[str, Any]:
    """Makes a data set in the folder `out`; returns its manifest.

    - `rules`: the settings of each source, as `mypt-lint` has them; they decide what is refused.
    - `resume`: continue what an earlier run with the same options and inputs has left.
    - `unit_size`: bytes of input in a unit; by default 4 MiB, or 32 MiB if some are in a store.
    - `progress`: called with what is being done ("reading", "encoding", "writing"), and bytes done
      of bytes in all.

    Raises PrepareError. If a line is refused and `on_error` is "fail", the message names the first
    reasons and the file of rejects, and the same folder may be used again.
    """
    try:
        far = any(source.remote for source in sources)
        unit = unit_size or (_FAR if far else SIZE)
        size = sum(source.size or 0 for source in sources)

        def report(done: int) -> None:
            progress("reading", done, size)

        plan = make_plan(sources, rules, options, out, unit=unit, progress=report)
        progress("reading", size, size)
        _open_folder(out, plan, resume=resume)
        _make_units(plan, workers, progress)
        return commit(plan, progress)
    except ChangedError as error:
        raise PrepareError(
            f"an input has changed while it was read ({error}); delete the output and start over"
        ) from None
    except StoreError as error:
        if error.kind in ("changed", "missing"):
            raise PrepareError(f"{error}; delete the output and start over") from None
        raise PrepareError(f"{error}, then use --resume") from None
    except (UsageError, VocabularyError) as error:
        raise PrepareError(str(error)) from None
    except OSError as error:
        where = error.filename or out
        hint = (
            "free some space and run again with --resume"
            if error.errno == 28
            else "check the disk and its permissions, then use --resume"
        )
        raise PrepareError(f"{where}: {error.strerror or error}; {hint}") from None


def _open_folder(out: Path, plan: Plan, *, resume: bool) -> None:
    """Makes the folder for units, with a plan in it that says what they are for.

    Raises PrepareError if `out` is not empty, or was begun with another plan.
    """
    folder, there = out / WORK, out / WORK / PLAN
    content = dumped(plan)
    if folder.exists():
        if not resume:
            raise PrepareError(
                f"{out}: an earlier run stopped here; go on with --resume, or delete {folder}"
            )
        if there.exists() and (other := _difference(there.read_bytes(), content)):
            raise PrepareError(f"{out}: the earlier run had {other}; delete {folder} to start over")
    elif out.exists() and any(p.name != REJECTS for p in out.iterdir()):
        if resume and (out / MANIFEST).exists():
            raise PrepareError(f"{out}: is complete, there is nothing to resume")
        raise PrepareError(f"{out}: is not empty; name another folder, or empty it")
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write(there, [content])


def _difference(before: bytes, now: bytes) -> str:
    """Returns in what the plan of an earlier run differs from this one; "" if in nothing."""
    try:
        one, two = json.loads(before), json.loads(now)
        if one == two:
            return ""
        for key, value in two["options"].items():
            if one["options"].get(key) != value:
                return f"{key} = {one['options'].get(key)!r}, this one has {value!r}"
        if [i.get("rules") for i in one["inputs"]] != [i.get("rules") for i in two["inputs"]]:
            return "other settings of mypt-lint (mypt-lint.toml, or --ignore)"
        if one["inputs"] != two["inputs"]:
            return "other inputs, or an input has changed since"
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return f"a {PLAN} that is damaged now"
    return "another grammar, vocabulary, unit size or version"


def _make_units(plan: Plan, workers: int, progress: Progress) -> None:
    sizes = [sum(plan.bytes_of(piece) for piece in unit) for unit in plan.units]
    todo = [number for number in range(len(plan.units)) if not is_made(plan.unit_file(number))]
    total = sum(sizes)
    at = total - sum(sizes[number] for number in todo)

    def reading(done: int) -> None:
        progress("encoding", at + done, total)

    do = partial(run_unit, plan)
    if workers <= 1 or len(todo) <= 1:  # else no process that is a copy of this one may draw
        do = partial(run_unit, plan, progress=reading)
        reading(0)
    try:
        for number, outcome in outcomes(plan, do, todo, workers):
            if isinstance(outcome, Exception):
                raise outcome
            at += sizes[number]
            progress("encoding", at, total)
    except KilledError as error:
        raise PrepareError(f"{error}; go on with --resume --jobs 1") from None
