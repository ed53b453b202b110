"""Says what a unit holds.

The report of a unit is written after it: a unit without one is not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import msgspec

from mypt_cli.errors import UsageError
from mypt_train.scale.planning import places


@dataclass(frozen=True, slots=True)
class PartReport:
    """A unit file in a unit: what it was read from, and the byte where it begins.

    `file` is the number of the input, `piece` the beginning of the piece in it (`Piece.start`).
    """

    file: int
    piece: int
    at: int


@dataclass(frozen=True, slots=True)
class UnitReport:
    """What a unit holds; `sha256` is that of its file."""

    unit: int
    sha256: str
    parts: tuple[PartReport, ...]

    def dumped(self) -> bytes:
        """Returns the report as the bytes of its file, with a checksum as last member."""
        body = msgspec.json.encode(self)[:-1]
        return b'%b,"check":%d}\n' % (body, crc32(body))

    @staticmethod
    def parsed(content: bytes) -> UnitReport:
        """Reads what `dumped` returned. Raises ValueError for anything else."""
        report = msgspec.convert(msgspec.json.decode(content), UnitReport)
        if report.dumped() != content:
            raise ValueError("its checksum does not match")
        return report


def report_of(out: Path, unit: int) -> UnitReport:
    """Returns the report of a unit that is made. Raises UsageError, also if it is damaged."""
    path = places.report(out, unit)
    try:
        return UnitReport.parsed(path.read_bytes())
    except (ValueError, LookupError, RecursionError) as error:
        raise UsageError(f"{path}: is damaged ({error}); delete it and use --resume") from None
