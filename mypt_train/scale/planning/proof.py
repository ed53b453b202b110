"""Proves that local inputs are as they were planned, and units as they were written.

Input: an input as a plan has it. Output: nothing, or a ChangedError. While a file has the stamp
that it was planned with, nobody has written to it; one with another is hashed again.
"""

import hashlib
import os
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from mypt_cli.errors import UsageError, unreadable
from mypt_train.scale.planning.pieces import Input, Stamp

_BUFFER = 1 << 18  # bytes that stay in the processor's cache
SHA256 = 32  # bytes at the end of a unit


class ChangedError(UsageError):
    """An input is another one than was planned, or gone. Trying again does not help."""


def stamp_of(stream: BinaryIO) -> Stamp:
    """Returns the stamp of an open file."""
    s = os.fstat(stream.fileno())
    return s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino, s.st_dev


def digest(
    stream: BufferedReader, length: int, count: Callable[[int], None] = lambda _: None
) -> str:
    """Returns the SHA-256 of the first bytes of a file; `count` is told the bytes of each read."""
    stream.seek(0)
    out, buffer = hashlib.sha256(), memoryview(bytearray(_BUFFER))
    while length and (size := stream.readinto(buffer[: min(length, _BUFFER)])):
        out.update(buffer[:size])
        length -= size
        count(size)
    return out.hexdigest()


def is_made(unit: Path) -> bool:
    """Returns whether a unit is there, and all of it as its SHA-256 says. Raises OSError."""
    if not unit.exists():
        return False
    length = unit.stat().st_size - SHA256
    with unit.open("rb") as data:
        return length >= 0 and digest(data, length) == data.read(SHA256).hex()


def prove(source: Input) -> None:
    """Raises ChangedError if a local input is not as it was planned.

    The ETag of an object is checked at each read.
    """
    if not source.local:
        return
    try:
        with open(source.path, "rb") as stream:
            now = stamp_of(stream)
            if now[0] != source.bytes:
                raise ChangedError(
                    f"{source.path}: has {now[0]:,} bytes, {source.bytes:,} were planned"
                )
            if now != source.stamp and digest(stream, source.bytes) != source.sha256:
                raise ChangedError(f"{source.path}: has another SHA-256 than was planned")
    except FileNotFoundError:
        raise ChangedError(f"{source.path}: is not there (from the folder {os.getcwd()})") from None
    except OSError as error:
        raise unreadable(source.path, error) from None
