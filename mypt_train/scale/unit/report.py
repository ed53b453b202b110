"""Says what a unit holds.

The report of a unit is written after it: a unit without one is not there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar
from zlib import crc32

import msgspec

from mypt_cli.store import Store, StoreError
from mypt_train.scale.planning import places

T = TypeVar("T")


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
        """Returns the report as the bytes of its object, with a checksum as last member."""
        body = msgspec.json.encode(self)[:-1]
        return b'%b,"check":%d}\n' % (body, crc32(body))

    @staticmethod
    def parsed(content: bytes) -> UnitReport:
        """Reads what `dumped` returned. Raises ValueError for anything else."""
        report = msgspec.convert(msgspec.json.decode(content), UnitReport)
        if report.dumped() != content:
            raise ValueError("its checksum does not match")
        return report


def report_of(store: Store, unit: int) -> UnitReport:
    """Returns the report of a unit that is made. Raises StoreError."""
    return read_object(store, places.report(unit), UnitReport.parsed)


def read_object(store: Store, key: str, parse: Callable[[bytes], T]) -> T:
    """Returns what a small object holds. Raises StoreError, also if it is damaged."""
    try:
        return parse(store.read(key))
    except (ValueError, LookupError, RecursionError) as error:
        message = f"{store.name(key)}: is damaged ({error}); delete it and run again"
        raise StoreError(message, "changed") from None
