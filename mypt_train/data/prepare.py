"""Makes a data set of JSONL: lints, encodes, masks, packs and writes.

Input: files of records. Output: a folder of shards with a manifest, whole or not there; and
`rejects.jsonl`. Each line is accounted for (invariant 5 of ARCHITECTURE.md). `docs/toolcall_sft.md`
describes the files.

First each unit of the inputs is encoded into one file, by any number of processes, and noted in a
journal. When all units are there, the shards are written from them, always in the same way, and the
manifest last. So a run that was killed continues where it stopped, and the number of processes
changes no byte.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import numpy as np

from mypt_cli import atomic
from mypt_cli.errors import UsageError
from mypt_cli.jsonl.blocks import Source
from mypt_cli.jsonl.paths import MANIFEST
from mypt_cli.jsonl.records import has_lines
from mypt_cli.words import either
from mypt_lint.check.detect import elsewhere_than
from mypt_lint.settings.settings import NO_SETTINGS, Settings
from mypt_records.names import NAMES
from mypt_spec.dialect import told_by_records
from mypt_spec.tokenizer.vocabulary import VocabularyError
from mypt_train.data import durable
from mypt_train.data.assembly.collection import Collection
from mypt_train.data.assembly.splits import write_splits
from mypt_train.data.assembly.summary import dumped, manifest, reasons, unwritable
from mypt_train.data.assembly.totals import Totals
from mypt_train.data.formats import in_parquet, parquet
from mypt_train.data.manifest import dtype_of
from mypt_train.data.options import Options
from mypt_train.data.units import SIZE, Key, Part, Task, path_of, tasks, work

WORK, REJECTS, PLAN = ".work", "rejects.jsonl", "plan.json"
Progress = Callable[[str, int, int], None]


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
    unit_size: int = SIZE,
    progress: Progress = lambda *_: None,
) -> dict[str, Any]:
    """Makes a data set in the folder `out`; returns its manifest.

    - `rules`: the settings of each source, as `mypt-lint` has them; they decide what is refused.
    - `resume`: continue what an earlier run with the same options and inputs has left.
    - `unit_size`: bytes of input in a unit.
    - `progress`: called with what is being done ("encoding", "writing"), and bytes done of bytes in
      all.

    Raises PrepareError. If a line is refused and `on_error` is "fail", the message names the first
    reasons and the file of rejects, and the same folder may be used again.
    """
    try:
        impossible(options)
        judging = [judged(r, options) for r in rules] or [NO_SETTINGS] * len(sources)
        inputs = _inputs(sources, judging)
        folder = _open_folder(out, inputs, options, unit_size, resume=resume)
        every = tasks(list(zip(sources, judging, strict=True)), size=unit_size)
        keys = _encode_all(every, options, folder, workers, unit_size, progress)
        if _inputs(sources, judging) != inputs:
            raise PrepareError(
                "an input has changed while it was read; delete the output and begin anew"
            )
        return _assemble(sources, inputs, out, folder, keys, options, progress)
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


def impossible(options: Options) -> None:
    """Raises PrepareError for options that a dialect or the installed packages cannot follow."""
    lacks = parquet.missing() if in_parquet(options.format) else ""
    if lacks:
        raise PrepareError(lacks)
    dialect = options.loaded_dialect
    if options.preferences and not dialect.preferences:
        raise PrepareError(
            f"records of {options.dialect} hold no preferences: leave out --preferences"
        )
    if options.history == "per-turn" and not dialect.table.turn_opener:
        raise PrepareError(
            f"{options.dialect}: the history per-turn needs to know where a turn begins: set "
            "turn_opener in [dialect] of its tokens.toml"
        )


def judged(rules: Settings, options: Options) -> Settings:
    """Returns the settings of an input that decide which of its lines are refused."""
    return rules.judging({"phase": options.phase, "fail-on": "error"})


def settings_of(rules: Settings) -> dict[str, Any]:
    """Returns what the manifest says of the settings of an input."""
    return {"settings": json.loads(json.dumps(dict(rules.values)))} if rules.values else {}


def _inputs(sources: list[Source], rules: Sequence[Settings]) -> list[dict[str, Any]]:
    """Returns the inputs as the manifest has them.

    `settings` are there if some of them change what is refused. Raises PrepareError for a stream,
    which cannot be read twice.
    """
    for source in sources:
        if source.remote:
            raise PrepareError(
                f"{source.path}: is in a store; use mypt-prepare plan, or copy it here"
            )
        if source.size is None or source.stdin or source.stream is not None:
            raise PrepareError(f"{source.path}: a stream cannot be read twice; write it to a file")
    return [
        {"path": source.path, "sha256": _sha256(source.path)} | settings_of(own)
        for source, own in zip(sources, rules, strict=True)
    ]


def _open_folder(
    out: Path, inputs: list[dict[str, Any]], options: Options, unit_size: int, *, resume: bool
) -> Path:
    """Returns the working folder, with a plan in it that says what the folder is for.

    Raises PrepareError if `out` is not empty, or was begun with another plan.
    """
    folder = out / WORK
    plan = {
        "options": options.as_dict(),
        "fingerprint": options.loaded_dialect.fingerprint,
        "unit_size": unit_size,
        "inputs": inputs,
    }
    wanted = json.dumps(plan, sort_keys=True).encode()
    if (out / PLAN).exists() and not (out / MANIFEST).exists():
        raise PrepareError(
            f"{out}: is planned for several machines; go on with mypt-prepare resume --plan "
            f"{out / PLAN}, or name another folder"
        )
    if folder.exists():
        there = folder / PLAN
        if not resume:
            raise PrepareError(
                f"{out}: an earlier run stopped here; go on with --resume, or delete {folder}"
            )
        if there.exists() and there.read_bytes() != wanted:
            raise PrepareError(
                f"{out}: the earlier run had {_difference(json.loads(there.read_bytes()), plan)}; "
                f"delete {folder} to begin anew"
            )
    elif out.exists() and any(p.name != REJECTS for p in out.iterdir()):
        if resume and (out / MANIFEST).exists():
            raise PrepareError(f"{out}: is complete, there is nothing to resume")
        raise PrepareError(f"{out}: is not empty; name another folder, or empty it")
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write(folder / PLAN, [wanted])
    return folder


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    for key, value in now["options"].items():
        if before["options"].get(key) != value:
            return f"{key} = {before['options'].get(key)!r}, this one has {value!r}"
    if [i.get("settings") for i in before["inputs"]] != [i.get("settings") for i in now["inputs"]]:
        return "other settings of mypt-lint (mypt-lint.toml, or --ignore)"
    if before["inputs"] != now["inputs"]:
        return "other inputs, or an input has changed since"
    return "another grammar, vocabulary or unit size"


def _sha256(path: str) -> str:
    try:
        return durable.sha256(path)
    except OSError as error:
        raise PrepareError(f"{path}: cannot be read: {error.strerror or error}") from None


def _encode_all(
    every: list[Task],
    options: Options,
    folder: Path,
    workers: int,
    unit_size: int,
    progress: Progress,
) -> tuple[Key, ...]:
    """Encodes what no earlier run has encoded; returns the keys of all units, in order."""
    journal = durable.Journal(folder / "journal")
    journal.mend()
    done: set[Key] = set()
    for entry in journal:
        key: Key = (entry["unit"][0], entry["unit"][1])
        path = path_of(folder, key)
        if path.exists() and durable.crc_of(path) == entry["crc"]:
            done.add(key)
    todo = [t for t in every if t.span is None or (t.file, t.part) not in done]
    total = sum(map(_bytes, every))
    at = total - sum(map(_bytes, todo))
    progress("encoding", at, total)
    for step in _run(todo, options, folder, frozenset(done), workers, unit_size):
        for entry in step.entries:
            journal.append(entry)
            done.add((entry["unit"][0], entry["unit"][1]))
        at += step.bytes
        progress("encoding", at, total)
    return tuple(sorted(done))


class _Step(NamedTuple):
    """What a process has done: journal entries of units, and the bytes of a task that is done."""

    entries: list[dict[str, Any]]
    bytes: int


def _run(
    todo: list[Task],
    options: Options,
    folder: Path,
    done: frozenset[Key],
    workers: int,
    unit_size: int,
) -> Iterator[_Step]:
    """Encodes all tasks, and yields each step: a unit or the end of a task, or both."""
    if workers <= 1 or len(todo) <= 1:
        for task in todo:
            for entry in work(task, options, folder, done, size=unit_size):
                yield _Step([entry], 0)
            yield _Step([], _bytes(task))
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_all_start_methods, get_context

    method = "fork" if "fork" in get_all_start_methods() else "spawn"
    options.loaded_dialect.tokenizer.encode_batch([" "])  # loaded once, before the workers fork
    pool = ProcessPoolExecutor(workers, get_context(method), initializer=_end_with_parent)
    try:
        futures = {
            pool.submit(_entries, task, options, folder, done, unit_size): task for task in todo
        }
        for future in as_completed(futures):
            yield _Step(future.result(), _bytes(futures[future]))
    except BrokenProcessPool:
        raise PrepareError(
            "a worker process was killed, perhaps for want of memory; go on with --resume --jobs 1"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """Ends this worker as soon as the process that started it has gone, however it went."""
    from multiprocessing import parent_process

    def wait() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
        os._exit(1)  # files are whole or not there, so nothing has to be put in order

    Thread(target=wait, daemon=True).start()


def _entries(
    task: Task, options: Options, folder: Path, done: frozenset[Key], unit_size: int
) -> list[dict[str, Any]]:
    """Does a task; returns its journal entries all at once, to be sent to another process."""
    return list(work(task, options, folder, done, size=unit_size))


def _bytes(task: Task) -> int:
    return task.span[1] - task.span[0] if task.span else task.source.size or 0


def _assemble(
    sources: list[Source],
    inputs: list[dict[str, Any]],
    out: Path,
    folder: Path,
    keys: tuple[Key, ...],
    options: Options,
    progress: Progress,
) -> dict[str, Any]:
    """Writes shards and manifest from the units; returns the manifest."""
    found = Collection([source.path for source in sources], options)
    divided = [has_lines(source) for source in sources]
    for key in keys:
        found.take(Part(path_of(folder, key), key[0], key[1] if divided[key[0]] else 0))
    totals, rejects, total = found.totals, found.rejects, found.totals.all
    if not totals.add_up:
        raise PrepareError(f"the lines do not add up: {total.as_dict()}; please report this")
    atomic.write(out / REJECTS, rejects)
    why = unwritable(totals, options)
    if why:
        shutil.rmtree(folder)  # so that the same folder can be named again
        if total.refused and options.on_error == "fail":
            why += _misnamed(sources, totals, inputs, options)
        raise PrepareError(why + reasons(rejects, str(out / REJECTS)))
    on_disk = np.dtype(dtype_of(options.loaded_dialect.tokenizer.vocab_size)).itemsize + 1
    size = on_disk * sum(p.length for items in found.placed.values() for p in items)
    written = 0

    def wrote(tokens: int) -> None:
        nonlocal written
        written += on_disk * tokens
        progress("writing", written, size)

    splits = write_splits(found, out, options, wrote, weights=totals.weights, seed=options.seed)
    for name, content in options.loaded_dialect.kept.items():
        atomic.write(out / name, [content])
    made = manifest(inputs, options, totals, splits)
    atomic.write(out / MANIFEST, [dumped(made)])
    shutil.rmtree(folder, ignore_errors=True)
    return made


def _misnamed(
    sources: list[Source], totals: Totals, inputs: list[dict[str, Any]], options: Options
) -> str:
    """Returns a text that names the inputs of another dialect than they are read as."""
    said = ""
    for number, (source, read) in enumerate(zip(sources, inputs, strict=True)):
        account = totals.of(number)
        of_other_tools = read.get("settings", {}).get("records") in NAMES
        if account.lines and account.refused == account.lines and not of_other_tools:
            others = [
                d.name for d in elsewhere_than(source, options.loaded_dialect, told_by_records())[0]
            ]
            if others:
                said += f"; {source.path} is {either(others)}: use --dialect {others[0]}"
    return said
