"""Proves that local inputs are as they were planned.

Input: an input as a plan has it, and maybe a piece. Output: nothing, or a ChangedError. A proof is
the SHA-256 of what was read. A piece of lines is hashed while it is read. A file of another kind is
hashed as a whole, once in a process: its stamp shows later that nobody has written to it since.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from io import BufferedReader
from typing import BinaryIO, cast

from mypt_cli.errors import UsageError, unreadable
from mypt_spec.memo import Memo
from mypt_train.scale.planning.pieces import Input, Piece, opened

_BUFFER = 1 << 18  # bytes that stay in the processor's cache


class ChangedError(UsageError):
    """An input is another one than was planned, or gone. Trying again does not help.

    Its argument says what is wrong.
    """

    def __str__(self) -> str:
        again = "plan again with the inputs as they are now, or put back what was planned"
        return f"{self.args[0]}; {again}"


# What the system says of a file: size, times of writing and of change in ns, inode and device.
Stamp = tuple[int, int, int, int, int]


def stamp_of(stream: BinaryIO) -> Stamp:
    """Returns the stamp of an open file."""
    s = os.fstat(stream.fileno())
    return s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino, s.st_dev


def hashes(
    stream: BufferedReader, ranges: Sequence[tuple[int, int]], count: Callable[[int], None]
) -> tuple[str, list[str]]:
    """Returns the SHA-256 of a file, and of each of the ranges that it consists of.

    `count` is told the bytes of each read.
    """
    stream.seek(0)
    total, parts = hashlib.sha256(), []
    buffer = memoryview(bytearray(_BUFFER))
    for start, end in ranges:
        part = hashlib.sha256() if len(ranges) > 1 else total
        remaining = end - start
        while remaining and (size := stream.readinto(buffer[: min(remaining, _BUFFER)])):
            part.update(buffer[:size])
            if part is not total:
                total.update(buffer[:size])
            remaining -= size
            count(size)
        parts.append(part.hexdigest())
    return total.hexdigest(), parts


_hashed = Memo[tuple[str, str], Stamp](1 << 16)  # path and SHA-256; the stamp is older


def remember(path: str, sha256: str, before: Stamp) -> None:
    """Remembers that a file was hashed, after it had the stamp `before`."""
    _hashed.keep((path, sha256), before)


def prove_whole(source: Input) -> None:
    """Raises ChangedError if a local input is not as it was planned."""
    state(source)
    with opened(source) as stream:
        now = stamp_of(stream)
        if _hashed.entries.get((source.path, source.sha256)) == now:
            return
        digest, _ = hashes(cast("BufferedReader", stream), [(0, source.bytes)], lambda _: None)
    if digest != source.sha256:
        raise _another(source)
    remember(source.path, source.sha256, now)


def state(source: Input) -> tuple[int, int]:
    """Returns size and time of change of a local file. An ETag is checked at each read."""
    if not source.local:
        return 0, 0
    try:
        stat = os.stat(source.path)
    except FileNotFoundError:
        raise ChangedError(f"{source.path}: is not there (from the folder {os.getcwd()})") from None
    except OSError as error:
        raise unreadable(source.path, error) from None
    if stat.st_size != source.bytes:
        raise ChangedError(
            f"{source.path}: has {stat.st_size:,} bytes, {source.bytes:,} were planned"
        )
    return stat.st_size, stat.st_mtime_ns


class PieceProof:
    """Hashes a piece while it is read, from its beginning on."""

    def __init__(self, source: Input, piece: Piece) -> None:
        self._source, self._piece = source, piece
        self._digest, self._at = hashlib.sha256(), piece.start

    def take(self, data: bytes) -> None:
        """Takes what was read."""
        self._digest.update(data)
        self._at += len(data)

    def prove(self) -> None:
        """Reads what nobody has read, and raises ChangedError if the piece is another one."""
        if self._at < self._piece.end:
            with opened(self._source) as stream:
                stream.seek(self._at)
                while data := stream.read(min(self._piece.end - self._at, _BUFFER)):
                    self.take(data)
        if self._digest.hexdigest() != self._piece.sha256:
            raise _another(self._source)


def _another(source: Input) -> ChangedError:
    return ChangedError(f"{source.path}: has another SHA-256 than was planned")
