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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from mypt_cli import atomic
from mypt_cli.errors import UsageError, unreadable
from mypt_cli.jsonl.blocks import Block
from mypt_train.data.units import BATCH, SIZE, Encoded, encoded
from mypt_train.scale import places
from mypt_train.scale.cut import Counting
from mypt_train.scale.pieces import Input, Piece, opened, piece_blocks
from mypt_train.scale.plan import Plan
from mypt_train.scale.unit.making import growing, putting
from mypt_train.scale.unit.report import UnitReport

_THREADS = 16
Progress = Callable[[int], None]


class ChangedError(UsageError):
    """An input is another one than was planned, or gone. Trying again does not help.

    Its argument says what is wrong.
    """

    def __str__(self) -> str:
        again = "plan again with the inputs as they are now, or put back what was planned"
        return f"{self.args[0]}; {again}"


def run_unit(
    plan: Plan, number: int, *, alone: bool = False, progress: Progress = lambda _: None
) -> UnitReport:
    """Makes a unit, and puts it and its report into the store of the data set.

    With `alone`, inputs are not proved here: who follows such a plan calls `prove` after the last
    unit. What a killed process has made of a long unit is then kept. `progress` is told the bytes
    of the inputs that are read. Raises ChangedError for an input that is not as it was planned;
    UsageError, StoreError and OSError for what cannot be read or written.
    """
    store, unit = plan.store(), plan.units[number]
    with growing(plan, number) if alone else putting(plan, number) as made:
        before = 0
        for piece in unit:
            kept = sum((part.file, part.piece) == (piece.file, piece.start) for part in made.parts)
            read = partial(_reading, progress, before, plan.bytes_of(piece))
            for item in _encoded(plan, piece, read, proved=not alone, skip=kept):
                made.add(piece, item)
            before += plan.bytes_of(piece)
    report = made.report(number)
    store.put(places.report(number), report.dumped())
    if alone:
        Path(plan.out, places.parts(number)).unlink(missing_ok=True)
    return report


def _reading(progress: Progress, before: int, size: int, position: int) -> None:
    progress(before + min(position, size))


def prove(plan: Plan, progress: Progress = lambda _: None) -> None:
    """Raises ChangedError if a local input is not as it was planned.

    `progress` is told the bytes of local inputs that are read, by any of several threads.
    """
    counting = Counting(progress)

    def one(source: Input) -> None:
        _state(source)
        _prove(source, Piece(0, 0, source.bytes), counting)

    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(one, plan.inputs))


def _encoded(
    plan: Plan, piece: Piece, progress: Progress, *, proved: bool, skip: int
) -> Iterator[Encoded]:
    """Yields a piece as unit files, but for the first `skip`; `progress` is told its bytes read.

    With `proved`, it is first proved that the piece is as it was planned.
    """
    source = plan.inputs[piece.file]
    before = _state(source)
    if proved:
        _prove(source, piece)
    blocks = _told(piece_blocks(source, piece, block_size=BATCH), piece, progress)
    yield from encoded(  # a unit file at a time
        blocks, plan.options, source.rules, size=SIZE, begins=piece.start == 0, skip=skip
    )
    if _state(source) != before:
        raise ChangedError(f"{source.path}: has changed while it was read")


def _told(blocks: Iterator[Block], piece: Piece, progress: Progress) -> Iterator[Block]:
    """Yields blocks, and says how far they are in a piece."""
    for block in blocks:
        yield block
        progress(block.position - piece.start)


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


def _prove(source: Input, piece: Piece, counting: Counting | None = None) -> None:
    """Raises ChangedError if the bytes of a local file are not those that were planned."""
    if not source.local:
        return
    start, end = (piece.start, piece.end) if piece.sha256 else (0, source.bytes)
    digest, left = hashlib.sha256(), end - start
    with opened(source) as stream:
        stream.seek(start)
        while left and (data := stream.read(min(left, 1 << 20))):
            digest.update(data)
            left -= len(data)
            if counting is not None:
                counting.add(len(data))
    if digest.hexdigest() != (piece.sha256 or source.sha256):
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
