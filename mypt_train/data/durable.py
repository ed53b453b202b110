"""Says what is already done and still whole, so that a killed run can continue.

Input: files that were written, and entries about them. Output: check sums of files, and a journal
whose entries are on the disk. `mypt_cli.atomic` writes the files.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mypt_cli import atomic


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
        fresh = not self.path.exists()
        with self.path.open("ab") as out:
            out.write(_line(entry))
            out.flush()
            os.fsync(out.fileno())
        if fresh:
            atomic.sync_folder(self.path.parent)

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
        if self.path.exists():
            atomic.write(self.path, [_line(entry) for entry in self])


def _line(entry: dict[str, Any]) -> bytes:
    """Returns an entry as a line of a journal."""
    body = json.dumps(entry, sort_keys=True).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)
