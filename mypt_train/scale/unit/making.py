"""Writes the file of a unit, unit file by unit file, and counts what these hold."""

from __future__ import annotations

import hashlib
from typing import BinaryIO

from mypt_train.data.unit_files import REFUSED
from mypt_train.data.units import Encoded
from mypt_train.scale.planning.pieces import Piece
from mypt_train.scale.unit.report import PartReport, UnitReport

_COUNTED = ("lines", "refused", "samples", "tokens")


class Making:
    """A unit while it is made: its bytes go to `out`, and what they hold is counted.

    `size` is in bytes.
    """

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._digest, self.size, self._weights = hashlib.sha256(), 0, False
        self._counts = dict.fromkeys(_COUNTED, 0)
        self.parts: list[PartReport] = []

    def add(self, piece: Piece, unit: Encoded) -> None:
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
            self._digest.update(data)
            self.size += len(data)

    def report(self, number: int) -> UnitReport:
        """Returns the report of what is there."""
        return UnitReport(
            number, self.size, self._digest.hexdigest(), **self._counts, weights=self._weights,
            parts=tuple(self.parts),
        )  # fmt: skip
