"""Proves that local inputs are as they were planned.

Input: an input as a plan has it, and maybe a piece. Output: nothing, or a ChangedError. A proof is
the SHA-256 of what was read. A piece is hashed while it is read, and a file that has to be proved
as a whole is hashed once in a process: its stamp shows later that nobody has written to it since.

A stamp is worth a hash if a write would change it: where the system keeps the time of the last
change of a file, and this time is so long past that it cannot be the time of a write to come. What
a program writes through a map of memory is told at the latest when the system writes it to the
disk; of a file that is on no disk (tmpfs), it never is.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from io import BufferedReader
from threading import Lock
from typing import BinaryIO, NamedTuple, cast

from mypt_cli.errors import UsageError, unreadable
from mypt_cli.run import in_threads
from mypt_spec.memo import Memo
from mypt_train.scale.planning.pieces import Input, Piece, opened

# Nanoseconds after which a change of a file is past. Dirty pages wait 35 s for the disk.
SETTLED = 60 * 10**9
_BUFFER = 1 << 18  # bytes that stay in the processor's cache


class ChangedError(UsageError):
    """An input is another one than was planned, or gone. Trying again does not help.

    Its argument says what is wrong.
    """

    def __str__(self) -> str:
        again = "plan again with the inputs as they are now, or put back what was planned"
        return f"{self.args[0]}; {again}"


class Stamp(NamedTuple):
    """What the system says of a file: size, times of change in ns, which file; and when it did."""

    size: int
    written: int
    changed: int
    inode: int
    device: int
    read_at: int

    @staticmethod
    def from_stream(stream: BinaryIO) -> Stamp:
        """Returns the stamp of an open file, which a disk of the network then asks for anew."""
        now, s = time.time_ns(), os.fstat(stream.fileno())
        return Stamp(s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino, s.st_dev, now)

    def same(self, later: Stamp) -> bool:
        """Returns whether the file is proved to have the bytes that it had."""
        past = max(self.written, self.changed) + SETTLED < self.read_at
        return os.name == "posix" and past and self[:-1] == later[:-1]


class Counting:
    """Counts bytes that several threads have read, and tells `progress` how many these are."""

    def __init__(self, progress: Callable[[int], None]) -> None:
        self._progress, self._done, self._alone = progress, 0, Lock()

    def add(self, count: int) -> None:
        with self._alone:
            self._done += count
            self._progress(self._done)


def hashes(
    stream: BufferedReader, ranges: Sequence[tuple[int, int]], counting: Counting
) -> tuple[str, list[str]]:
    """Returns the SHA-256 of a file, and of each of the ranges that it consists of."""
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
            counting.add(size)
        parts.append(part.hexdigest())
    return total.hexdigest(), parts


_hashed = Memo[tuple[str, str], Stamp](1 << 16)  # path and SHA-256; the stamp is older


def remember(path: str, sha256: str, before: Stamp) -> None:
    """Remembers that a file was hashed, after it had the stamp `before`."""
    _hashed.keep((path, sha256), before)


def prove(inputs: Sequence[Input], progress: Callable[[int], None] = lambda _: None) -> None:
    """Raises ChangedError if a local input is not as it was planned.

    `progress` is told the bytes of local inputs that are proved, by any of several threads.
    """
    counting = Counting(progress)
    list(in_threads(partial(prove_whole, counting=counting), inputs))


def prove_whole(source: Input, *, counting: Counting | None = None) -> None:
    """Raises ChangedError if a local input is not as it was planned."""
    state(source)
    if not source.local:
        return
    counting = counting or Counting(lambda _: None)
    with opened(source) as stream:
        now = Stamp.from_stream(stream)
        stamp = _hashed.entries.get((source.path, source.sha256))
        if stamp is not None and stamp.same(now):
            counting.add(source.bytes)
            return
        digest, _ = hashes(cast("BufferedReader", stream), [(0, source.bytes)], counting)
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
