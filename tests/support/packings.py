"""Pack bytes so that readers can cut them: frames of zstd with a table, members of gzip with sizes."""

from __future__ import annotations

import gzip
import struct

import zstandard

PACKER = zstandard.ZstdCompressor(level=1)


def seekable(parts: list[bytes], check: bool) -> bytes:
    """Returns frames with the table of the seekable format after them."""
    frames = [PACKER.compress(part) for part in parts]
    entries = b"".join(
        struct.pack("<II", len(frame), len(part)) + b"cccc" * check
        for frame, part in zip(frames, parts, strict=True)
    )
    table = entries + struct.pack("<IBI", len(parts), check << 7, 0x8F92EAB1)
    return b"".join(frames) + struct.pack("<II", 0x184D2A5E, len(table)) + table


def bgzf(parts: list[bytes]) -> bytes:
    """Returns members of gzip that say their size."""
    packed = [gzip.compress(part, mtime=0) for part in parts]
    extra = [struct.pack("<HBBHH", 6, 66, 67, 2, len(part) + 7) for part in packed]
    return b"".join(
        part[:3] + b"\x04" + part[4:10] + more + part[10:]
        for part, more in zip(packed, extra, strict=True)
    )
