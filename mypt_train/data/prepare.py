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
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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
from mypt_train.data import durable, histories
from mypt_train.data.encode_line import LONG, REFUSED
from mypt_train.data.formats import in_parquet, parquet, trainer_of
from mypt_train.data.kinds import CHOSEN, REJECTED, SFT
from mypt_train.data.manifest import SCHEMA, VERSIONS, dtype_of
from mypt_train.data.options import Options
from mypt_train.data.packing import pack
from mypt_train.data.shards import shards_of, write_shard
from mypt_train.data.units import SIZE, Key, Placed, Task, UnitFile, UnitFiles, path_of, tasks, work

WORK, REJECTS = ".work", "rejects.jsonl"
# The number of rejects that a refusal names.
_SHOWN = 3
Progress = Callable[[str, int, int], None]


class PrepareError(Exception):
    """A data set cannot be made; the message says why and what to do.

    No folder that could be taken for a data set is left.
    """


@dataclass(slots=True)
class Account:
    """Counts what became of the lines: `lines` is `written` + `refused` + `long` + `duplicate`."""

    lines: int = 0
    written: int = 0
    refused: int = 0
    long: int = 0
    duplicate: int = 0

    @property
    def adds_up(self) -> bool:
        return self.lines == self.written + self.refused + self.long + self.duplicate

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}


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
    lacks = parquet.missing() if in_parquet(options.format) else ""
    if lacks:
        raise PrepareError(lacks)
    try:
        if options.preferences and not options.loaded_dialect.preferences:
            raise PrepareError(
                f"records of {options.dialect} hold no preferences: leave out --preferences"
            )
        if options.history == "per-turn" and not options.loaded_dialect.table.turn_opener:
            raise PrepareError(
                f"{options.dialect}: the history per-turn needs to know where a turn begins: set "
                "turn_opener in [dialect] of its tokens.toml"
            )
        usual = {"phase": options.phase, "fail-on": "error"}
        judging = [r.judging(usual) for r in rules] or [NO_SETTINGS] * len(sources)
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


def _inputs(sources: list[Source], rules: Sequence[Settings]) -> list[dict[str, Any]]:
    """Returns the inputs as the manifest has them.

    `settings` are there if some of them change what is refused. Raises PrepareError for a stream,
    which cannot be read twice.
    """
    for source in sources:
        if source.size is None or source.stdin or source.stream is not None:
            raise PrepareError(f"{source.path}: a stream cannot be read twice; write it to a file")
    return [
        {"path": source.path, "sha256": _sha256(source.path)}
        | ({"settings": json.loads(json.dumps(dict(own.values)))} if own.values else {})
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
    if folder.exists():
        there = folder / "plan.json"
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
    atomic.write(folder / "plan.json", [wanted])
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
    found = _Collection(sources, options)
    for number, key in enumerate(keys):
        found.take(number, key[0], UnitFile.open(path_of(folder, key)))
    accounts, placed, rejects = found.accounts, found.placed, found.rejects
    total = Account(**{name: sum(getattr(a, name) for a in accounts) for name in Account.__slots__})
    if not all(account.adds_up for account in [*accounts, total]):
        raise PrepareError(f"the lines do not add up: {total.as_dict()}; please report this")
    atomic.write(out / REJECTS, rejects)
    fails = total.refused and options.on_error == "fail"
    if fails or not total.written:
        shutil.rmtree(folder)  # so that the same folder can be named again
        hint = "repair them and run again, or use --on-error reject"
        raise PrepareError(
            (
                f"{total.refused} of {total.lines} lines are refused; {hint}"
                + _misnamed(sources, accounts, inputs, options)
                if fails
                else f"nothing to write: none of {total.lines} lines is an episode"
            )
            + _reasons(rejects, out / REJECTS)
        )
    if found.weights and (options.format != "bin" or options.preferences):
        shutil.rmtree(folder)
        why = (
            "preferences have no weights"
            if options.preferences
            else (f"the format {options.format} has no place for weights; use --format bin")
        )
        raise PrepareError(f"messages have weights other than 0 and 1, and {why}")
    dtype = dtype_of(options.loaded_dialect.tokenizer.vocab_size)
    on_disk = np.dtype(dtype).itemsize + 1  # the bytes of a token and its mask
    size = on_disk * sum(p.length for items in placed.values() for p in items)
    written = 0

    def wrote(tokens: int) -> None:
        nonlocal written
        written += on_disk * tokens
        progress("writing", written, size)

    with UnitFiles(folder, keys) as units:
        splits = {
            name: _write_split(out / name, items, options, units, wrote, weights=found.weights)
            for name, items in placed.items()
        }
    dialect = options.loaded_dialect
    for name, content in dialect.kept.items():
        atomic.write(out / name, [content])
    manifest = _manifest(inputs, options, accounts, total, splits, found.tags)
    if found.weighed:
        manifest["weighed"] = found.weighed
    if found.history:
        manifest["history"] = histories.reported(found.history)
    if found.weights:
        manifest["weights_dtype"] = "float32"
    atomic.write(out / MANIFEST, [json.dumps(manifest, indent=1, sort_keys=True).encode() + b"\n"])
    shutil.rmtree(folder, ignore_errors=True)
    return manifest


def _misnamed(
    sources: list[Source], accounts: list[Account], inputs: list[dict[str, Any]], options: Options
) -> str:
    """Returns a text that names the inputs of another dialect than they are read as."""
    said = ""
    for source, account, read in zip(sources, accounts, inputs, strict=True):
        of_other_tools = read.get("settings", {}).get("records") in NAMES
        if account.lines and account.refused == account.lines and not of_other_tools:
            others = [
                d.name for d in elsewhere_than(source, options.loaded_dialect, told_by_records())[0]
            ]
            if others:
                said += f"; {source.path} is {either(others)}: use --dialect {others[0]}"
    return said


def _reasons(rejects: list[bytes], path: Path) -> str:
    """Returns the first findings of the rejects, a line each, and where all of them are."""
    lines = []
    for entry in map(json.loads, rejects[:_SHOWN]):
        first, more = entry["findings"][0], len(entry["findings"]) - 1
        tail = f" (and {more} more)" if more else ""
        lines.append(f"  {entry['file']}:{entry['line']}: {first['code']} {first['message']}{tail}")
    return "\n".join(["", *lines, f"all of them: {path}"]) if lines else ""


class _Collection:
    """What all units hold, taken in order: accounts, rejects, and where each sample goes."""

    def __init__(self, sources: list[Source], options: Options) -> None:
        self.sources, self.options = sources, options
        self.accounts = [Account() for _ in sources]
        self.placed: dict[str, list[Placed]] = {"train": [], "val": []}
        self.tags: Counter[str] = Counter()
        self.rejects: list[bytes] = []  # a line of JSON each
        self.lines = [0] * len(sources)  # of each file, in the units before
        self.divided = [has_lines(source) for source in sources]
        self.seen: set[bytes] = set()
        self.pairs = 0
        self.weighed, self.weights = 0, False
        self.history: Counter[str] = Counter()

    def take(self, number: int, file: int, unit: UnitFile) -> None:
        """Takes a unit of a file; `number` is that of the unit."""
        head, account = unit.head, self.accounts[file]
        base = self.lines[file] if self.divided[file] else 0
        account.lines += head["lines"]
        account.refused += head["statuses"].get(REFUSED, 0)
        account.long += head["statuses"].get(LONG, 0)
        self.tags.update(head["tags"])
        self.weighed += head.get("weighed", 0)
        self.weights |= head.get("weights", False)
        self.history.update(head.get("history", {}))
        for reject in head["rejects"]:
            entry = {"file": self.sources[file].path, "line": base + reject["row"]} | {
                key: reject[key] for key in ("status", "findings")
            }
            self.rejects.append(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
        new = self._place(number, file, base, unit)
        account.written += sum(new.values())
        account.duplicate += len(new) - sum(new.values())
        self.lines[file] += head["lines"]

    def _place(self, number: int, file: int, base: int, unit: UnitFile) -> dict[int, bool]:
        """Puts samples into splits; returns for each row whether any of its samples is new."""
        offset, before, split = 0, -1, "train"
        new: dict[int, bool] = {}
        kinds: list[int] = unit.head.get("kinds") or [SFT] * len(unit.lengths)
        samples = zip(unit.lengths.tolist(), unit.rows.tolist(), kinds, strict=True)
        for i, (length, row, kind) in enumerate(samples):
            if kind != REJECTED:  # which goes where its chosen answer goes
                own, fresh = self._split(unit, i, kind)
                if self.options.history != "per-turn" or row != before:  # a record is in one split
                    split = own
                before = row
                self.pairs += kind == CHOSEN
            new[row] = new.get(row, False) or fresh
            if fresh:
                pair = self.pairs if kind in (CHOSEN, REJECTED) else 0
                self.placed[split].append(
                    Placed(number, offset, length, file, base + row, kind, pair)
                )
            offset += length
        return new

    def _split(self, unit: UnitFile, i: int, kind: int) -> tuple[str, bool]:
        """Returns the split of a sample, by its ids, and whether it is new where that matters."""
        key = unit.digests[i].tobytes()
        val = int.from_bytes(key[:8], "little") < self.options.val_fraction * 2**64
        if kind:
            key += bytes([kind]) + (unit.digests[i + 1].tobytes() if kind == CHOSEN else b"")
        fresh = not (self.options.dedup and key in self.seen)
        if self.options.dedup:
            self.seen.add(key)
        return "val" if val else "train", fresh


def _write_split(
    folder: Path,
    items: list[Placed],
    options: Options,
    units: UnitFiles,
    wrote: Callable[[int], None],
    *,
    weights: bool,
) -> list[dict[str, Any]]:
    row_length = options.context_length if options.pack else 0
    tokenizer = options.loaded_dialect.tokenizer
    if row_length:
        rows = [
            [items[i] for i in row]
            for row in pack(((p.length, i) for i, p in enumerate(items)), row_length)
        ]
    else:
        rows = [[item] for item in items]
    order = np.random.Generator(np.random.PCG64(options.seed)).permutation(len(rows))
    folder.mkdir(exist_ok=True)
    for left in folder.iterdir():  # of a run that stopped here
        left.unlink()
    shuffled = [rows[i] for i in order.tolist()]
    if trainer_of(options.format):
        row_length = 0  # these trainers pad a batch to its longest row
    out = []
    for number, shard in enumerate(shards_of(shuffled, row_length, options.tokens_per_shard)):
        entry = write_shard(
            folder,
            number,
            shard,
            row_length,
            units,
            tokenizer.pad,
            options.format,
            dtype=dtype_of(tokenizer.vocab_size),
            preferences=options.preferences,
            packed=options.pack,
            weights=weights,
        )
        wrote(entry["episode_tokens"])
        out.append(entry)
    return out


def _manifest(
    inputs: list[dict[str, Any]],
    options: Options,
    accounts: list[Account],
    total: Account,
    splits: dict[str, list[dict[str, Any]]],
    tags: Counter[str],
) -> dict[str, Any]:
    dialect = options.loaded_dialect
    dtype = dtype_of(dialect.tokenizer.vocab_size)
    masked = {"mask": options.episode_mask} if options.history == "per-turn" else {}
    counted = ("tokens", "episodes", "rows", "episode_tokens", "trained_tokens")
    return {
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
        "options": options.as_dict() | {"dialect": dialect.name} | masked,
        "inputs": [
            entry | account.as_dict() for entry, account in zip(inputs, accounts, strict=True)
        ],
        "lines": total.as_dict(),
        "tags": dict(sorted(tags.items())),
        "splits": {
            name: {key: sum(shard[key] for shard in shards) for key in counted} | {"shards": shards}
            for name, shards in splits.items()
        },
    }
