"""Work units: fixed pieces of the inputs, encoded into one file each, whoever does it and in
whatever order.

A unit file is a JSON header behind its length (uint32), then for its n samples and m tokens:
lengths (uint32, n), rows of the input (uint64, n), digests (16 bytes, n), ids (uint16, m), masks
(uint8, m); all little-endian.
"""

from __future__ import annotations

import gc
import json
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mypt_cli.jsonl.blocks import Source, blocks, ranges
from mypt_lint.settings.settings import Settings
from mypt_spec.findings import Finding
from mypt_train.data import durable
from mypt_train.data.encode_line import WRITTEN, Encoder, Outcome
from mypt_train.data.options import Options

SIZE = 4 << 20  # bytes of input, unpacked
MAX_LINE = 8 << 20
BATCH = (
    256 << 10
)  # bytes of input that are encoded at once: the arrays for them stay in the processor's cache
Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Task:
    """What one process does at a time: a byte range of a plain file, which is one unit, or all
    units of a compressed one.
    """

    file: int
    source: Source
    rules: Settings
    part: int = 0
    span: tuple[int, int] | None = None


def tasks(inputs: Sequence[tuple[Source, Settings]], *, size: int = SIZE) -> list[Task]:
    """All work on some inputs, in their order."""
    out = []
    for number, (source, rules) in enumerate(inputs):
        spans = ranges(source, size=size)
        out += [Task(number, source, rules, part, span) for part, span in enumerate(spans)]
        if source.compressed:
            out.append(Task(number, source, rules))
    return out


def path_of(folder: Path, key: Key) -> Path:
    return folder / f"unit_{key[0]:05}_{key[1]:06}.bin"


def work(
    task: Task, options: Options, folder: Path, done: frozenset[Key], *, size: int = SIZE
) -> Iterator[dict[str, Any]]:
    """Do a task; a journal entry for each unit that is now on the disk. Units in `done` are passed
    over.

    Raises UsageError for an input that cannot be read, and OSError where the file cannot be
    written.
    """
    encoder = _encoder(options, task.rules)
    start, end = task.span or (0, None)
    unit, lines = task.part, _Unit(encoder)
    for block in blocks(task.source, block_size=size, max_line=MAX_LINE, start=start, end=end):
        if (task.file, unit) not in done:
            if block.too_long:
                lines.refuse(
                    Finding(
                        "MYP007",
                        f"the line has {block.too_long:,} bytes; at most {MAX_LINE:,} are read",
                    ),
                    block.first_row,
                )
            elif block.broken:
                lines.refuse(Finding("MYP003", block.broken), block.first_row)
            else:
                lines.add(block.lines(), block.first_row, begins=start == 0)
        if task.span is None:
            if (task.file, unit) not in done:
                yield lines.write(folder, (task.file, unit))
            unit, lines = unit + 1, _Unit(encoder)
    if task.span is not None and (task.file, unit) not in done:
        yield lines.write(folder, (task.file, unit))


@lru_cache(maxsize=4)
def _encoder(options: Options, rules: Settings) -> Encoder:
    """One for all tasks of a process: it learns as it goes."""
    return Encoder(options, rules)


def _batches(lines: list[bytes]) -> Iterator[list[bytes]]:
    """Lines in lists of about `BATCH` bytes."""
    begin = size = 0
    for i, raw in enumerate(lines, 1):
        size += len(raw)
        if size >= BATCH:
            yield lines[begin:i]
            begin, size = i, 0
    if begin < len(lines):
        yield lines[begin:]


class _Unit:
    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.lines = 0
        self.statuses: Counter[str] = Counter()
        self.tagged: dict[
            int, list[Any]
        ] = {}  # [tags, records]: records of one form share the object that counts their tags
        self.rejects: list[dict[str, Any]] = []
        self.lengths: list[int] = []
        self.rows: list[int] = []
        self.digests: list[bytes] = []
        self.kinds: list[int] = []
        self.ids: list[npt.NDArray[np.uint16]] = []
        self.masks: list[npt.NDArray[np.uint8]] = []

    def add(self, lines: list[bytes], first: int, *, begins: bool) -> None:
        """Encode lines, of which the first has the row `first`. `begins`: row 1 begins the file."""
        row = first
        collects = gc.isenabled()
        # millions of small objects and no cycles: looking for some takes a tenth of the time
        gc.disable()
        try:
            for batch in _batches(lines):
                for outcome in self.encoder.lines(batch, first=begins and row == 1):
                    self.take(outcome, row)
                    row += 1
        finally:
            if collects:
                gc.enable()

    def refuse(self, finding: Finding, row: int) -> None:
        self.take(Outcome("refused", findings=(finding,)), row)

    def take(self, outcome: Outcome, row: int) -> None:
        self.lines += 1
        self.statuses[outcome.status] += 1
        if outcome.status != WRITTEN:
            shown = [
                {"code": f.code, "message": f.message, "pointer": f.pointer}
                for f in outcome.findings
            ]
            self.rejects.append({"row": row, "status": outcome.status, "findings": shown})
            return
        if outcome.tags:
            self.tagged.setdefault(id(outcome.tags), [outcome.tags, 0])[1] += 1
        for sample in outcome.samples:
            self.lengths.append(len(sample.ids))
            self.rows.append(row)
            self.digests.append(sample.digest)
            self.kinds.append(sample.kind)
            self.ids.append(sample.ids)
            self.masks.append(sample.mask)

    def write(self, folder: Path, key: Key) -> dict[str, Any]:
        tags: Counter[str] = Counter()
        for counted, records in self.tagged.values():
            tags.update({tag: n * records for tag, n in counted.items()})
        head = {
            "lines": self.lines, "statuses": dict(self.statuses),
            "tags": dict(sorted(tags.items())),
            "rejects": self.rejects, "samples": len(self.lengths), "tokens": sum(self.lengths),
        }  # fmt: skip
        if any(self.kinds):
            head["kinds"] = self.kinds
        body = json.dumps(head).encode()
        pieces: list[bytes | memoryview] = [
            struct.pack("<I", len(body)), body, np.array(self.lengths, "<u4").tobytes(),
            np.array(self.rows, "<u8").tobytes(),
            b"".join(self.digests),
        ]  # fmt: skip
        if self.ids:
            pieces += [
                np.concatenate(self.ids).astype("<u2", copy=False).data.cast("B"),
                np.concatenate(self.masks).data,
            ]
        return {"unit": list(key), "crc": durable.write(path_of(folder, key), pieces)}


@dataclass(frozen=True, slots=True)
class UnitFile:
    """A unit that was written: what it holds of its samples, and at which byte their ids and masks
    begin.
    """

    head: dict[str, Any]
    lengths: npt.NDArray[np.uint32]
    rows: npt.NDArray[np.uint64]
    digests: npt.NDArray[np.void]
    ids_at: int
    mask_at: int

    @staticmethod
    def open(path: Path) -> UnitFile:
        with path.open("rb") as data:
            (size,) = struct.unpack("<I", data.read(4))
            head = json.loads(data.read(size))
            arrays: list[Any] = [
                np.frombuffer(data.read(np.dtype(dtype).itemsize * head["samples"]), dtype)
                for dtype in ("<u4", "<u8", "V16")
            ]
            at = data.tell()
        lengths, rows, digests = arrays
        return UnitFile(head, lengths, rows, digests, at, at + 2 * head["tokens"])
