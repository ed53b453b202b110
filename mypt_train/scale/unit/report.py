"""Says what a unit holds.

The report of a unit is written after it: a unit without one is not there.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from mypt_cli.store import Store
from mypt_train.scale import places


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
