"""Files that are whole or not there, whenever the process or the machine stops."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

PART = ".part"  # the ending of a file that is being written


def write(path: Path, pieces: Iterable[bytes | memoryview]) -> int:
    """Write a file: under another name, to the disk, then renamed, then the folder to the disk. Its
    CRC-32.

    Raises OSError; a piece of a file may then be left under the other name, never under its own.
    """
    crc = 0
    part = path.with_name(path.name + PART)
    with part.open("wb") as out:
        for piece in pieces:
            out.write(piece)
            crc = zlib.crc32(piece, crc)
        out.flush()
        os.fsync(out.fileno())
    os.replace(part, path)
    sync_folder(path.parent)
    return crc


def sync_folder(folder: Path) -> None:
    """Let the names in a folder survive a loss of power, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def crc_of(path: Path) -> int:
    """The CRC-32 of a file."""
    crc = 0
    with path.open("rb") as data:
        while piece := data.read(1 << 20):
            crc = zlib.crc32(piece, crc)
    return crc


def sha256(path: str | Path) -> str:
    """The SHA-256 of a file, read in pieces."""
    with open(path, "rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


class Journal:
    """What is done, a line each with its own CRC-32; a line that was cut off counts for nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, entry: dict[str, Any]) -> None:
        """Add an entry; it is on the disk when this returns."""
        body = json.dumps(entry, sort_keys=True)
        fresh = not self.path.exists()
        with self.path.open("ab") as out:
            out.write(f"{zlib.crc32(body.encode()):08x} {body}\n".encode())
            out.flush()
            os.fsync(out.fileno())
        if fresh:
            sync_folder(self.path.parent)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The entries that are whole."""
        if not self.path.exists():
            return
        for line in self.path.read_bytes().split(b"\n"):
            crc, _, body = line.partition(b" ")
            if body and crc == f"{zlib.crc32(body):08x}".encode():
                yield json.loads(body)

    def mend(self) -> None:
        """Write it anew without lines that are not whole: what is added to a line that was cut off
        would be lost too.
        """
        entries = list(self)
        bodies = [json.dumps(entry, sort_keys=True) for entry in entries]
        if self.path.exists():
            write(
                self.path, [f"{zlib.crc32(body.encode()):08x} {body}\n".encode() for body in bodies]
            )
