"""Encodes lines into unit files, whose layout is in unit_files.py."""

from __future__ import annotations

import gc
import json
import struct
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mypt_cli.jsonl.blocks import Block
from mypt_cli.jsonl.values import unread
from mypt_lint.settings.settings import NO_SETTINGS, Settings
from mypt_train.data.encode_line import Encoder, LineOutcome
from mypt_train.data.formats.manifest import TokenIds
from mypt_train.data.formats.options import Options
from mypt_train.data.unit_files import DEFAULT_DTYPE, REFUSED, WRITTEN

# Bytes of input in a unit file, after decompression.
SIZE = 4 << 20
# Bytes of input that are encoded at a time: their arrays stay in the processor's cache.
BATCH = 256 << 10


def encoded(
    blocks: Iterator[Block],
    options: Options,
    rules: Settings,
    *,
    size: int = SIZE,
    begins: bool = True,
) -> Iterator[Encoded]:
    """Yields blocks of lines as unit files, each of about `size` bytes of input.

    A unit file ends after the line with which it has `size` bytes, however the blocks are cut.
    `begins` says that row 1 begins the file. Raises UsageError for an input that cannot be read.
    """
    encoder = _encoder(options, rules)
    unit = Encoded(encoder)
    unit_bytes = -1  # bytes in the unit; -1 before its first block
    for block in blocks:
        row = block.first_row
        for lines, length in _cut(block, size, max(unit_bytes, 0)):
            unit_bytes = max(unit_bytes, 0) + length
            if lines is None:
                unit.take(LineOutcome(REFUSED, findings=(unread(block),)), row)
            else:
                unit.add(lines, row, begins=begins)
            row += 1 if lines is None else len(lines)
            if unit_bytes >= size:
                yield unit
                unit_bytes, unit = -1, Encoded(encoder)
    if unit_bytes >= 0:
        yield unit


def _cut(block: Block, size: int, unit_bytes: int) -> Iterator[tuple[list[bytes] | None, int]]:
    """Yields the lines of a block, with their bytes, so that each `size` bytes end one of them.

    None is a line that cannot be read. `unit_bytes` bytes came before.
    """
    if block.too_long:
        yield None, block.too_long + 1
        return
    if block.broken:
        yield None, len(block.data)
        return
    lines = block.lines()
    begin = length = 0
    for i, raw in enumerate(lines, 1):
        length += len(raw) + 1
        if unit_bytes + length >= size:
            yield lines[begin:i], length
            begin, length, unit_bytes = i, 0, 0
    if begin < len(lines) or not lines:
        yield lines[begin:], length


def encoder_of(options: Options, rules: Settings = NO_SETTINGS) -> Encoder:
    """Returns what turns lines into samples, for one set of options."""
    if not options.model:
        return Encoder(options, rules)
    from mypt_train.data.encode_model import ModelEncoder  # with all checks of other records

    return ModelEncoder(options, rules)


_encoder = lru_cache(maxsize=4)(encoder_of)  # one for all units of a process: it learns as it works


class Encoded:
    """Collects the outcomes of the lines of one unit, and lays them out as bytes."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.lines = 0
        self.statuses: Counter[str] = Counter()
        # id of a counter of tags -> [the counter, records]; records of a template share a counter.
        self.tagged: dict[int, list[Any]] = {}
        self.rejects: list[dict[str, Any]] = []
        self.lengths: list[int] = []
        self.rows: list[int] = []
        self.digests: list[bytes] = []
        self.kinds: list[int] = []
        self.ids: list[TokenIds] = []
        self.masks: list[npt.NDArray[np.uint8]] = []
        self.weights: dict[int, npt.NDArray[np.float32]] = {}  # of samples that have some
        self.messages: list[npt.NDArray[np.int32]] = []  # of all samples, or of none
        self.weighed = 0
        self.history: Counter[str] = Counter()
        self.warned: Counter[str] = Counter()

    def add(self, lines: list[bytes], first: int, *, begins: bool) -> None:
        """Encodes lines; `first` is the row of the first, `begins` if row 1 begins the file."""
        collects = gc.isenabled()
        # There are millions of small objects and no cycles; looking for cycles takes a tenth of
        # the time.
        gc.disable()
        try:
            outcomes = self.encoder.lines(lines, first=begins and first == 1)
            for row, outcome in enumerate(outcomes, first):
                self.take(outcome, row)
        finally:
            if collects:
                gc.enable()

    def take(self, outcome: LineOutcome, row: int) -> None:
        """Records the outcome of the line at `row`."""
        self.lines += 1
        self.statuses[outcome.status] += 1
        if outcome.status != WRITTEN:
            findings = [
                {"code": f.code, "message": f.message, "pointer": f.pointer}
                for f in outcome.findings
            ]
            self.rejects.append({"row": row, "status": outcome.status, "findings": findings})
            return
        if outcome.tags:
            self.tagged.setdefault(id(outcome.tags), [outcome.tags, 0])[1] += 1
        if outcome.history:
            self.history.update(outcome.history)
        if outcome.warned:
            self.warned.update(outcome.warned)
        for sample in outcome.samples:
            self.lengths.append(len(sample.ids))
            self.rows.append(row)
            self.digests.append(sample.digest)
            self.kinds.append(sample.kind)
            self.ids.append(sample.ids)
            self.masks.append(sample.mask)
            self.weighed += sample.weighed
            if sample.weights is not None:
                self.weights[len(self.masks) - 1] = sample.weights
            if sample.messages is not None:
                self.messages.append(sample.messages)

    def head(self) -> dict[str, Any]:
        """Returns the header of the unit file."""
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
        if self._dtype != DEFAULT_DTYPE:
            head["dtype"] = self._dtype.str
        if self.weighed:
            head["weighed"] = self.weighed
        if self.weights:
            head["weights"] = True
        if self.messages:
            head["messages"] = True
        if self.history:
            head["history"] = dict(sorted(self.history.items()))
        if self.warned:
            head["warnings"] = dict(sorted(self.warned.items()))
        return head

    @property
    def _dtype(self) -> np.dtype[Any]:
        return self.encoder.dtype.newbyteorder("<")

    def pieces(self, head: dict[str, Any]) -> list[bytes | memoryview]:
        """Returns the bytes of the unit file with its header."""
        body = json.dumps(head).encode()
        pieces: list[bytes | memoryview] = [
            struct.pack("<I", len(body)), body, np.array(self.lengths, "<u4").tobytes(),
            np.array(self.rows, "<u8").tobytes(),
            b"".join(self.digests),
        ]  # fmt: skip
        if self.ids:
            pieces += [
                np.concatenate(self.ids).astype(self._dtype, copy=False).data.cast("B"),
                np.concatenate(self.masks).data,
            ]
        if self.weights:
            every = [self.weights.get(i, mask) for i, mask in enumerate(self.masks)]
            pieces.append(np.concatenate(every).astype("<f4", copy=False).data.cast("B"))
        if self.messages:
            pieces.append(np.concatenate(self.messages).astype("<i4", copy=False).data.cast("B"))
        return pieces
