"""Writes the object of a unit, unit file by unit file, and counts what these hold.

Where several machines may make the same unit, it is put whole (`putting`). Where one process is
alone, it grows in its place (`growing`), so that of a unit of many gigabytes, a file of gzip for
instance, a kill loses the last few unit files only.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from mypt_cli import atomic
from mypt_cli.store import is_url
from mypt_train.data.unit_files import REFUSED
from mypt_train.data.units import Encoded
from mypt_train.scale.planning import places
from mypt_train.scale.planning.pieces import Piece
from mypt_train.scale.planning.plan import Plan
from mypt_train.scale.unit.report import PartReport, UnitReport

# The unit files after which a process that is alone keeps what it has made of a unit from a kill.
UNITS_PER_NOTE = 4
_COUNTED = ("lines", "refused", "samples", "tokens")


class Making:
    """A unit while it is made: its bytes go to `out`, and what they hold is counted.

    `keep` is called each time that what is there should be kept from a kill. `size` is in bytes.
    """

    def __init__(self, out: BinaryIO, keep: Callable[[], None] = lambda: None) -> None:
        self._out, self._keep = out, keep
        self._digest, self.size, self._weights = hashlib.sha256(), 0, False
        self._counts = dict.fromkeys(_COUNTED, 0)
        self.parts: list[PartReport] = []

    def add(self, piece: Piece, unit: Encoded) -> None:
        if self.parts and len(self.parts) % UNITS_PER_NOTE == 0:
            self._keep()
        head = unit.head()
        self.parts.append(
            PartReport(piece.file, piece.start, self.size, head["lines"], head["samples"])
        )
        for name in ("lines", "samples", "tokens"):
            self._counts[name] += head[name]
        self._counts["refused"] += head["statuses"].get(REFUSED, 0)
        self._weights |= head.get("weights", False)
        for data in unit.pieces(head):
            self._out.write(data)
            self._take(data)

    def report(self, number: int, *, since: int = 0) -> UnitReport:
        """Returns the report of what is there; of its unit files, those from `since` on."""
        return UnitReport(
            number, self.size, self._digest.hexdigest(), **self._counts, weights=self._weights,
            parts=tuple(self.parts[since:]),
        )  # fmt: skip

    def again(self, stream: BinaryIO, report: UnitReport) -> bool:
        """Takes what an earlier process has written, up to a report; returns whether it is whole.

        If it is not, nothing is taken.
        """
        digest, before = self._digest.copy(), self.size
        while self.size < report.size and (
            data := stream.read(min(1 << 20, report.size - self.size))
        ):
            self._take(data)
        if self._digest.hexdigest() != report.sha256:
            self._digest, self.size = digest, before
            return False
        self._counts = {name: getattr(report, name) for name in _COUNTED}
        self._weights = report.weights
        self.parts += report.parts
        return True

    def _take(self, data: bytes | memoryview) -> None:
        self._digest.update(data)
        self.size += len(data)


@contextmanager
def growing(plan: Plan, number: int) -> Iterator[Making]:
    """Yields a unit in a local folder, with what an earlier process has made of it.

    A line of notes beside it, for each few unit files, says what is whole; until there is a report
    the unit counts as not there. Only one process may make it.
    """
    path, notes = Path(plan.out, places.unit(number)), Path(plan.out, places.parts(number))
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+b") as out:
        noted = 0

        def keep() -> None:
            nonlocal noted
            out.flush()
            os.fsync(out.fileno())
            with open(notes, "ab") as file:
                file.write(making.report(number, since=noted).dumped())
                file.flush()
                os.fsync(file.fileno())
            noted = len(making.parts)

        making = Making(out, keep)
        out.seek(0)
        complete = 0
        for line in notes.read_bytes().splitlines(keepends=True) if notes.exists() else ():
            try:
                report = UnitReport.parsed(line)
            except ValueError:  # a kill has cut it short
                break
            if not making.again(out, report):
                break
            complete += len(line)
        if notes.exists():
            os.truncate(notes, complete)
        noted = len(making.parts)
        out.truncate(making.size)
        yield making
        out.flush()
        os.fsync(out.fileno())
    atomic.sync_folder(path.parent)


@contextmanager
def putting(plan: Plan, number: int) -> Iterator[Making]:
    """Yields a unit that becomes an object when the block ends without an exception."""
    key = places.unit(number)
    if not is_url(plan.out):
        path = Path(plan.out, *key.split("/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic.replacing(path) as out:
            yield Making(out)
        return
    with TemporaryDirectory(prefix="mypt-unit-") as folder:
        path = Path(folder, "unit.bin")
        with path.open("wb") as out:
            yield Making(out)
        plan.store().put(key, path)
