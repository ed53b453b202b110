"""Reads the bytes of a file, and unpacks gzip and zstandard, piece by piece.

Damage ends the pieces after the last good one, with a BrokenDataError.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Generator, Iterator
from functools import partial
from types import ModuleType
from typing import Any, BinaryIO

from mypt_cli.errors import UsageError

CHUNK = 1 << 16  # compressed bytes read at once
# Compressed bytes unpacked at once, which bound the output of one step to 16 MiB and about 32 MiB:
# a byte of gzip may unpack to 1 KiB, and four bytes of zstd to 128 KiB.
_GZ_PIECE, _ZST_PIECE = 1 << 14, 1 << 10


class BrokenDataError(Exception):
    """Compressed data that is truncated or damaged; the message says how, and at which byte."""


class FileReader:
    """Reads on from `offset`, to `end` if given, and knows how far it is."""

    def __init__(
        self, stream: BinaryIO, path: str, offset: int = 0, end: int | None = None
    ) -> None:
        # read1 returns what a pipe holds now, and does not wait for a full block.
        self._read_piece: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
        self.path, self.offset, self.end = path, offset, end
        self.seekable = stream.seekable()
        if offset:
            stream.seek(offset)

    def read(self, size: int) -> bytes:
        """Returns at most `size` bytes; none at the end. Raises UsageError where the disk fails."""
        if self.end is not None:
            size = min(size, self.end - self.offset)
        try:
            data = self._read_piece(size) if size > 0 else b""
        except OSError as error:
            reason = error.strerror or str(error)
            raise UsageError(
                f"{self.path}: reading failed at byte {self.offset}: {reason}; check the disk"
            ) from None
        self.offset += len(data)
        return data


def gather(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Yields small pieces joined to at least `size` bytes; when they break off, nothing is lost."""
    buffered: list[bytes] = []
    length = 0
    broken: BrokenDataError | None = None
    try:
        for piece in pieces:
            buffered.append(piece)
            length += len(piece)
            if length >= size:
                joined = buffered[0] if len(buffered) == 1 else b"".join(buffered)
                buffered, length = [], 0
                yield joined
    except BrokenDataError as error:
        broken = error
    if buffered:
        yield b"".join(buffered)
    if broken is not None:
        raise broken


def unpack(reader: FileReader, *, is_gzip: bool) -> Iterator[bytes]:
    """Yields the content of gzip members or zstd frames, one after the other.

    Zero padding is allowed between and after gzip members, as in gzip itself. At damage, of zstd
    the content of up to 1 KiB of input before it is lost with it.
    """
    fault: type[Exception] = zlib.error
    start: Callable[[], Any] = partial(zlib.decompressobj, 31)
    if not is_gzip:
        zstandard = zstandard_module(reader.path)
        fault, start = zstandard.ZstdError, zstandard.ZstdDecompressor().decompressobj
    name, word, most = ("gzip", "at", _GZ_PIECE) if is_gzip else ("zstd", "after", _ZST_PIECE)
    member, inside, members = start(), False, 0
    remaining = b""
    while (fresh := reader.read(CHUNK)) or remaining:
        data, remaining, at = remaining + fresh, b"", 0
        while at < len(data):
            if is_gzip and members and not inside and data[at] == 0:
                at = len(data) - len(data[at:].lstrip(b"\0"))
                continue
            # A file's pieces count from the beginning of the frame, wherever reading began: so
            # damage in it is at the same byte. A pipe's are not waited for.
            if reader.seekable and fresh and len(data) - at < most:
                remaining = data[at:]
                break
            piece = data[at : at + most]
            before = member.copy() if is_gzip else None
            inside = True
            try:
                out = member.decompress(piece)
            except fault as error:
                where = reader.offset - len(data) + at
                if before is not None:
                    where += yield from _salvage(before, piece)
                reason = str(error).rpartition(": ")[2]  # without the library's own preamble
                raise BrokenDataError(
                    f"{name} data is damaged {word} byte {where} of the file: {reason}"
                ) from None
            if out:
                yield out
            at += len(piece)
            if member.eof:
                at -= len(member.unused_data)
                member, inside, members = start(), False, members + 1
    if inside or not members:
        raise BrokenDataError(
            f"{name} data ends too early, at byte {reader.offset} of the file: it is truncated"
        )


def _salvage(unzip: zlib._Decompress, data: bytes) -> Generator[bytes, None, int]:
    """Yields byte by byte what a failing call had decompressed, which zlib drops.

    Returns where the fault is.
    """
    for index in range(len(data)):
        try:
            out = unzip.decompress(data[index : index + 1])
        except zlib.error:
            return index
        if out:
            yield out
    return len(data)


def zstandard_module(path: str) -> ModuleType:
    """Returns the package zstandard. Raises UsageError where it is not installed."""
    try:
        return importlib.import_module("zstandard")
    except ImportError:
        raise UsageError(
            f"{path}: reading .zst needs the package zstandard; run `pip install zstandard`"
        ) from None
