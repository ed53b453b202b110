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
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mypt_train.data.formats.manifest import SFT, TokenIds

# What became of a line; the header counts its lines by this.
WRITTEN, REFUSED, LONG = "written", "refused", "long"
# The type of ids that a unit has if it does not say another.
DEFAULT_DTYPE = np.dtype("<u2")
# The most unit files that are open at a time.
_OPEN = 200


class UnitFile(NamedTuple):
    """What a unit file says of its samples, and where their tokens are.

    `begins`: the bytes from the beginning of the file to ids, masks, weights and messages, or -1;
    `end`: those to the end.
    """

    head: dict[str, Any]
    lengths: npt.NDArray[np.uint32]
    rows: npt.NDArray[np.uint64]
    digests: npt.NDArray[np.void]
    begins: tuple[int, ...]
    end: int

    @staticmethod
    def open(part: Part) -> UnitFile:
        """Reads all of a unit file but its tokens. Raises OSError."""
        with part.path.open("rb") as data:
            data.seek(part.at)
            (size,) = struct.unpack("<I", data.read(4))
            head = json.loads(data.read(size))
            arrays: list[Any] = [
                np.frombuffer(data.read(np.dtype(dtype).itemsize * head["samples"]), dtype)
                for dtype in ("<u4", "<u8", "V16")
            ]
            begins, end = [], data.tell()
        lengths, rows, digests = arrays
        width = np.dtype(head.get("dtype", DEFAULT_DTYPE)).itemsize
        for size in (width, 1, 4 * ("weights" in head), 4 * ("messages" in head)):
            begins.append(end if size else -1)
            end += size * head["tokens"]
        return UnitFile(head, lengths, rows, digests, tuple(begins), end)


class Part(NamedTuple):
    """The place of a unit file: the file that it is in, and the byte where it begins."""

    path: Path
    at: int


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
        self.places: dict[int, tuple[str, tuple[int, ...]]] = {}
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

    def _places(self, number: int) -> tuple[str, tuple[int, ...]]:
        """Returns the file of a unit, and where its four arrays begin in it."""
        if number not in self.places:
            part = self.parts[number]
            self.places[number] = str(part.path), UnitFile.open(part).begins
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
