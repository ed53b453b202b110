"""Makes one unit of a plan: reads its pieces, encodes them, and puts the result whole.

A unit is a function of the plan and its number. Whoever makes it, and however often, writes the
same bytes under the same name, so nobody has to be asked first, and a unit that was made twice does
no harm. Its report is written last: a unit without one is not there.

The unit is one object, of unit files one after another (`data.units`), each of a few megabytes of
input. So one of them is in memory at a time, and one unit on the disk.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import msgspec

from mypt_cli import atomic
from mypt_cli.errors import UsageError, unreadable
from mypt_cli.store import Store, is_url
from mypt_train.data import durable
from mypt_train.data.encode_line import REFUSED
from mypt_train.data.units import SIZE, Encoded, encoded
from mypt_train.scale import places
from mypt_train.scale.pieces import Input, Piece, opened, piece_blocks
from mypt_train.scale.plan import Plan

_THREADS = 16


class ChangedError(UsageError):
    """An input is another one than was planned, or gone. Trying again does not help.

    Its argument says what is wrong.
    """

    def __str__(self) -> str:
        again = "plan again with the inputs as they are now, or put back what was planned"
        return f"{self.args[0]}; {again}"


@dataclass(frozen=True, slots=True)
class PartReport:
    """A unit file in a unit: what it was read from, and the byte where it begins.

    `file` is the number of the input, `piece` the beginning of the piece in it (`Piece.start`).
    """

    file: int
    piece: int
    at: int
    lines: int
    samples: int


@dataclass(frozen=True, slots=True)
class UnitReport:
    """What a unit holds.

    `size` and `sha256` are those of its object. `weights` says that some targets have weights.
    """

    unit: int
    size: int
    sha256: str
    lines: int
    refused: int
    samples: int
    tokens: int
    weights: bool
    parts: tuple[PartReport, ...]

    def dumped(self) -> bytes:
        """Returns the report as the bytes of its object."""
        return msgspec.json.encode(self) + b"\n"

    @staticmethod
    def parsed(content: bytes) -> UnitReport:
        """Reads what `dumped` returned."""
        return msgspec.convert(msgspec.json.decode(content), UnitReport)


def report_of(store: Store, unit: int) -> UnitReport:
    """Returns the report of a unit that is made."""
    return UnitReport.parsed(store.read(places.report(unit)))


def run_unit(plan: Plan, number: int, *, alone: bool = False) -> UnitReport:
    """Makes a unit, and puts it and its report into the store of the data set.

    With `alone`, inputs are not proved here: who follows such a plan calls `prove` after the last
    unit. Raises ChangedError for an input that is not as it was planned; UsageError, StoreError and
    OSError for what cannot be read or written.
    """
    store = plan.store()
    digest, at = hashlib.sha256(), 0
    counts: dict[str, int] = dict.fromkeys(("lines", "refused", "samples", "tokens"), 0)
    weights, parts = False, list[PartReport]()
    with _putting(plan, places.unit(number)) as out:
        for piece in plan.units[number]:
            for made in _encoded(plan, piece, proved=not alone):
                head = made.head()
                parts.append(
                    PartReport(piece.file, piece.start, at, head["lines"], head["samples"])
                )
                counts["lines"] += head["lines"]
                counts["refused"] += head["statuses"].get(REFUSED, 0)
                counts["samples"] += head["samples"]
                counts["tokens"] += head["tokens"]
                weights |= head.get("weights", False)
                for data in made.pieces(head):
                    out.write(data)
                    digest.update(data)
                    at += len(data)
    report = UnitReport(
        number, at, digest.hexdigest(), **counts, weights=weights, parts=tuple(parts)
    )
    store.put(places.report(number), report.dumped())
    return report


def prove(plan: Plan) -> None:
    """Raises ChangedError if a local input is not as it was planned."""

    def one(source: Input) -> None:
        _state(source)
        _prove(source, Piece(0, 0, source.bytes))

    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(one, plan.inputs))


def _encoded(plan: Plan, piece: Piece, *, proved: bool) -> Iterator[Encoded]:
    """Yields a piece as unit files; with `proved`, having proved that it is as it was planned."""
    source = plan.inputs[piece.file]
    before = _state(source)
    if proved:
        _prove(source, piece)
    blocks = piece_blocks(source, piece, block_size=SIZE)  # a unit file at a time
    yield from encoded(blocks, plan.options, source.rules, begins=piece.start == 0)
    if _state(source) != before:
        raise ChangedError(f"{source.path}: has changed while it was read")


def _state(source: Input) -> tuple[int, int]:
    """Returns size and time of change of a local file. An ETag is checked at each read."""
    if not source.local:
        return 0, 0
    try:
        found = os.stat(source.path)
    except FileNotFoundError:
        raise ChangedError(f"{source.path}: is not there (from the folder {os.getcwd()})") from None
    except OSError as error:
        raise unreadable(source.path, error) from None
    if found.st_size != source.bytes:
        raise ChangedError(
            f"{source.path}: has {found.st_size:,} bytes, {source.bytes:,} were planned"
        )
    return found.st_size, found.st_mtime_ns


def _prove(source: Input, piece: Piece) -> None:
    """Raises ChangedError if the bytes of a local file are not those that were planned."""
    if not source.local:
        return
    if not piece.sha256:
        same = durable.sha256(source.path) == source.sha256
    else:
        digest, left = hashlib.sha256(), piece.end - piece.start
        with opened(source) as stream:
            stream.seek(piece.start)
            while left and (data := stream.read(min(left, 1 << 20))):
                digest.update(data)
                left -= len(data)
        same = digest.hexdigest() == piece.sha256
    if not same:
        raise ChangedError(f"{source.path}: has another SHA-256 than was planned")


def put(plan: Plan, key: str, data: bytes, *, alone: bool) -> None:
    """Puts an object into the data set.

    With `alone`, what a kill leaves of it is taken over by the next run. Raises StoreError and
    OSError.
    """
    if alone:
        atomic.write(Path(plan.out, *key.split("/")), [data])
    else:
        plan.store().put(key, data)


@contextmanager
def _putting(plan: Plan, key: str) -> Iterator[BinaryIO]:
    """Yields a file that becomes the object `key` when the block ends without an exception."""
    if not is_url(plan.out):
        path = Path(plan.out, *key.split("/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic.replacing(path) as out:
            yield out
        return
    with TemporaryDirectory(prefix="mypt-unit-") as folder:
        path = Path(folder, "unit.bin")
        with path.open("wb") as out:
            yield out
        plan.store().put(key, path)
