"""Writes files that are whole or not there, whenever the process or the machine stops.

Input: a path and bytes. Output: the file, synced to the disk, or no file of that name. A run of
`mypt-prepare` or `mypt-train` can be killed at any moment and continues from what these functions
left.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

# The ending of a file that is being written.
PART = ".part"


def write(path: Path, pieces: Iterable[bytes | memoryview]) -> int:
    """Writes a file that is whole or not there; returns the CRC-32 of its bytes.

    The pieces go to a temporary name, are synced, and the file is renamed; then the folder is
    synced. Raises OSError; part of the file may then be left under the temporary name, never under
    `path`.
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
    """Syncs the names in a folder to the disk; does nothing where the system cannot."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def crc_of(path: Path) -> int:
    """Returns the CRC-32 of a file, read in pieces."""
    crc = 0
    with path.open("rb") as data:
        while piece := data.read(1 << 20):
            crc = zlib.crc32(piece, crc)
    return crc


def sha256(path: str | Path) -> str:
    """Returns the SHA-256 of a file in hexadecimal, read in pieces."""
    with open(path, "rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


class Journal:
    """Keeps what is done: a line of JSON for each entry, with its own CRC-32.

    A line that was cut off by a kill is ignored, as if its entry had never been added.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, entry: dict[str, Any]) -> None:
        """Adds an entry; it is on the disk when this returns."""
        body = json.dumps(entry, sort_keys=True)
        fresh = not self.path.exists()
        with self.path.open("ab") as out:
            out.write(f"{zlib.crc32(body.encode()):08x} {body}\n".encode())
            out.flush()
            os.fsync(out.fileno())
        if fresh:
            sync_folder(self.path.parent)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yields the whole entries, in the order they were added."""
        if not self.path.exists():
            return
        for line in self.path.read_bytes().split(b"\n"):
            crc, _, body = line.partition(b" ")
            if body and crc == f"{zlib.crc32(body):08x}".encode():
                yield json.loads(body)

    def mend(self) -> None:
        """Rewrites the file without lines that were cut off.

        Call it before `append`: an entry that is added to a cut line would be lost with that line.
        """
        entries = list(self)
        bodies = [json.dumps(entry, sort_keys=True) for entry in entries]
        if self.path.exists():
            write(
                self.path, [f"{zlib.crc32(body.encode()):08x} {body}\n".encode() for body in bodies]
            )
