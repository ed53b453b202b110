"""Reads unit files: what they say of their samples, and the tokens of these.

A unit file is the length of a JSON header (uint32), the header, then for its n samples and m
tokens: lengths (uint32, n), rows of the input (uint64, n), digests (16 bytes, n), ids (uint16, or
as the header's `dtype` says, m), masks (uint8, m) and, if the header has them, `weights` (float32,
m) and `messages` (int32, m); all little-endian.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from mypt_train.data.formats.manifest import SFT, TokenIds

# What became of a line; the header counts its lines by this.
WRITTEN, REFUSED, LONG = "written", "refused", "long"
# The type of ids that a unit has if it does not say another.
DEFAULT_DTYPE = np.dtype("<u2")
# The most unit files that are open at a time.
_OPEN = 200


@dataclass(frozen=True, slots=True)
class UnitFile:
    """A unit that was written: what it says of its samples, and where their ids and masks begin.

    `ids_at` and `mask_at` are bytes from the beginning of the file, `weights_at` and `messages_at`
    too, or -1.
    """

    head: dict[str, Any]
    lengths: npt.NDArray[np.uint32]
    rows: npt.NDArray[np.uint64]
    digests: npt.NDArray[np.void]
    ids_at: int
    mask_at: int
    weights_at: int
    messages_at: int

    @staticmethod
    def open(path: Path, at: int = 0) -> UnitFile:
        """Reads all of a unit that begins at byte `at` but its ids and masks. Raises OSError."""
        with path.open("rb") as data:
            data.seek(at)
            return UnitFile.read(data)

    @staticmethod
    def read(data: BinaryIO) -> UnitFile:
        """Reads the same of a unit that begins where a file is. Raises OSError."""
        (size,) = struct.unpack("<I", data.read(4))
        head = json.loads(data.read(size))
        arrays: list[Any] = [
            np.frombuffer(data.read(np.dtype(dtype).itemsize * head["samples"]), dtype)
            for dtype in ("<u4", "<u8", "V16")
        ]
        at, width = data.tell(), np.dtype(head.get("dtype", DEFAULT_DTYPE)).itemsize
        lengths, rows, digests = arrays
        mask_at = at + width * head["tokens"]
        weights_at = mask_at + head["tokens"] if head.get("weights") else -1
        end = mask_at + head["tokens"] * (5 if head.get("weights") else 1)
        messages_at = end if head.get("messages") else -1
        return UnitFile(head, lengths, rows, digests, at, mask_at, weights_at, messages_at)


class Part(NamedTuple):
    """A unit that was written: the file and the byte where it begins, and what it was read from.

    `file` is the number of the input. Rows count from 1 in each piece of it; `piece` is its number.
    """

    path: Path
    file: int
    piece: int
    at: int = 0


class Placed(NamedTuple):
    """The place of an episode in a unit, and where it comes from.

    `unit`: number of the unit. `offset`: first token in it. `length`: in tokens. `file`, `line`:
    number of the input from 0, and line in it from 1. `kind`, `pair`: as in `manifest.KINDS`.
    """

    unit: int
    offset: int
    length: int
    file: int
    line: int
    kind: int = SFT
    pair: int = 0


class UnitFiles:
    """Reads episodes from the unit files of a data set.

    A bounded number of files is open at a time, and none of their tokens stay in memory.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts
        self.places: dict[int, tuple[str, tuple[int, int, int, int]]] = {}
        self.open: dict[str, io.FileIO] = {}

    def __enter__(self) -> UnitFiles:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self.open.values():
            file.close()

    def ids(self, row: Sequence[Placed], out: TokenIds) -> None:
        """Reads the ids of episodes, one after another, into `out`. Raises OSError."""
        self._read(row, 0, out)

    def masks(self, row: Sequence[Placed], out: npt.NDArray[np.uint8]) -> None:
        """Reads the targets of episodes, one after another, into `out`. Raises OSError."""
        self._read(row, 1, out)

    def weights(self, row: Sequence[Placed], out: npt.NDArray[np.float32]) -> None:
        """Reads how much each token of episodes is trained into `out`. Raises OSError."""
        at = 0
        for placed in row:
            some = out[at : at + placed.length]
            if self._places(placed.unit)[1][2] >= 0:
                self._read([placed], 2, some)
            else:
                mask = np.empty(len(some), np.uint8)
                self.masks([placed], mask)
                some[:] = mask
            at += placed.length

    def messages(self, row: Sequence[Placed], out: npt.NDArray[np.int32]) -> None:
        """Reads which message each token of episodes comes from into `out`. Raises OSError."""
        self._read(row, 3, out)

    def _places(self, number: int) -> tuple[str, tuple[int, int, int, int]]:
        """Returns the file of a unit, and where its four arrays begin in it."""
        if number not in self.places:
            part = self.parts[number]
            unit = UnitFile.open(part.path, part.at)
            begins = unit.ids_at, unit.mask_at, unit.weights_at, unit.messages_at
            self.places[number] = str(part.path), begins
        return self.places[number]

    def _read(self, row: Sequence[Placed], which: int, out: npt.NDArray[Any]) -> None:
        into, at, width = out.data.cast("B"), 0, out.itemsize
        for placed in row:
            path, begins = self.places.get(placed.unit) or self._places(placed.unit)
            file = self.open.get(path) or self._opened(path)
            end = at + width * placed.length
            file.seek(begins[which] + width * placed.offset)
            if file.readinto(into[at:end]) != end - at:
                raise OSError(None, "is shorter than it was written", path)
            at = end

    def _opened(self, path: str) -> io.FileIO:
        if len(self.open) >= _OPEN:
            self.open.pop(next(iter(self.open))).close()
        self.open[path] = io.FileIO(path)
        return self.open[path]
