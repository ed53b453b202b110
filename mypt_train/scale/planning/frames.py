"""Finds where the frames of zstandard and the members of gzip begin, without unpacking them.

Input: a packed file. Output: the byte where each begins, or only the first where that cannot be
known. Of zstandard, the table at the end of its seekable format says it, or else the sizes of all
blocks, which only a local file is read for. Of gzip, only the members of BGZF say their size.
"""

import struct
from typing import BinaryIO

_FRAME, _TABLE = 0xFD2FB528, 0x8F92EAB1
_SKIPPED = range(0x184D2A50, 0x184D2A60)
_RLE = 1  # a block of one byte, repeated
_BGZF = struct.Struct("<4sIBBHBBHH")


def zstd_frames(stream: BinaryIO, length: int, *, local: bool) -> list[int]:
    """Returns where the frames of a file of `length` bytes begin."""
    starts = _table(stream, length)
    if starts is None and local:
        starts = _walked(stream, length)
    return starts or [0]


def gzip_members(stream: BinaryIO, length: int, *, local: bool) -> list[int]:
    """Returns where the members of a file of `length` bytes begin, if it is a local BGZF."""
    starts, at = [], 0
    while local and at < length:
        stream.seek(at)
        head = stream.read(_BGZF.size)
        if len(head) < _BGZF.size:
            return [0]
        magic, _, _, _, extra, one, two, size, total = _BGZF.unpack(head)
        if (magic, extra, one, two, size) != (b"\x1f\x8b\x08\x04", 6, 66, 67, 2):
            return [0]
        starts.append(at)
        at += total + 1
    return starts if at == length else [0]


def _table(stream: BinaryIO, length: int) -> list[int] | None:
    """Returns what the table of the seekable format says; None without a whole one."""
    stream.seek(max(length - 9, 0))
    tail = stream.read(9)
    if len(tail) < 9:
        return None
    number, kind, magic = struct.unpack("<IBI", tail)
    if magic != _TABLE:
        return None
    width = 12 if kind & 0x80 else 8
    begin = length - 9 - number * width
    if begin < 8 or number > 1 << 24:
        return None
    stream.seek(begin)
    entries = stream.read(number * width)
    starts, at = [], 0
    for size, _ in struct.iter_unpack("<II" + "x" * (width - 8), entries):
        starts.append(at)
        at += size
    return starts if at == begin - 8 else None


def _walked(stream: BinaryIO, length: int) -> list[int] | None:
    """Returns what the heads of all blocks say; None for a file that is damaged."""
    starts, at = [], 0
    while at < length:
        end = _end_of_frame(stream, at)
        if end is None or end > length:
            return None
        if end > 0 or not at:
            starts.append(at)
        at = abs(end)
    return starts


def _end_of_frame(stream: BinaryIO, at: int) -> int | None:
    """Returns the byte after a frame, negative for one without content; None if it is damaged."""
    stream.seek(at)
    head = stream.read(14)
    if len(head) < 8:
        return None
    magic, size = (int.from_bytes(head[i : i + 4], "little") for i in (0, 4))
    if magic in _SKIPPED:
        return -(at + 8 + size)
    if magic != _FRAME:
        return None
    flags: int = head[4]
    single, check = flags & 0x20, flags & 0x04
    dictionary = (0, 1, 2, 4)[flags & 3]
    sized = (1 if single else 0, 2, 4, 8)[flags >> 6 & 3]
    at += 5 + (not single) + dictionary + sized
    last = 0
    while not last:
        stream.seek(at)
        block = stream.read(3)
        if len(block) < 3:
            return None
        value = int.from_bytes(block, "little")
        last = value & 1
        at += 3 + (1 if value >> 1 & 3 == _RLE else value >> 3)
    return at + (4 if check else 0)
