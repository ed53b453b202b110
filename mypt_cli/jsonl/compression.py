"""Reads the bytes of a file, and unpacks gzip and zstandard, piece by piece.

Damage ends the pieces after the last good one, with a BrokenDataError.
"""

from __future__ import annotations

import contextlib
import importlib
import zlib
from collections.abc import Callable, Generator, Iterator
from types import ModuleType
from typing import BinaryIO

from mypt_cli.errors import UsageError

CHUNK = 1 << 16  # compressed bytes read at once
# zstandard cannot bound its output, and four bytes may unpack to 128 KiB: so many compressed bytes
# at once bound one step to about 32 MiB.
_ZST_PIECE = 1 << 10


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
    held: list[bytes] = []
    length = 0
    broken: BrokenDataError | None = None
    try:
        for piece in pieces:
            held.append(piece)
            length += len(piece)
            if length >= size:
                joined = held[0] if len(held) == 1 else b"".join(held)
                held, length = [], 0
                yield joined
    except BrokenDataError as error:
        broken = error
    if held:
        yield b"".join(held)
    if broken is not None:
        raise broken


def gunzip(reader: FileReader, size: int) -> Iterator[bytes]:
    """Yields the content of gzip members, one after the other.

    Zero padding is allowed between and after them, as in gzip itself.
    """
    unzip, data = zlib.decompressobj(31), b""
    members, inside = 0, False
    while True:
        if not data:
            data = reader.read(CHUNK)
            if not data and (inside or not members):
                with contextlib.suppress(zlib.error):
                    yield unzip.flush()
                raise BrokenDataError(
                    f"gzip data ends too early, at byte {reader.offset} of the file: it is "
                    "truncated"
                )
            if not data:
                return
        if members and not inside:
            data = data.lstrip(b"\0")
            if not data:
                continue
        inside = True
        before = unzip.copy()
        try:
            out = unzip.decompress(data, size)
        except zlib.error as error:
            good = yield from _salvage(before, data)
            where = reader.offset - len(data) + good
            raise BrokenDataError(
                f"gzip data is damaged at byte {where} of the file: {_reason(error)}"
            ) from None
        if out:
            yield out
        data = unzip.unconsumed_tail
        if unzip.eof:
            data = unzip.unused_data
            unzip, inside, members = zlib.decompressobj(31), False, members + 1


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


def unzstd(reader: FileReader) -> Iterator[bytes]:
    """Yields the content of zstd frames.

    At damage, the content of up to 1 KiB of input before it is lost with it.
    """
    zstandard = zstandard_module(reader.path)
    unzip = zstandard.ZstdDecompressor()
    frame, inside, frames = unzip.decompressobj(), False, 0
    remaining = b""
    while (fresh := reader.read(CHUNK)) or remaining:
        data, remaining, at = remaining + fresh, b"", 0
        while at < len(data):
            # A file's pieces count from the beginning of the frame, wherever reading began: so
            # damage in it is at the same byte. A pipe's are not waited for.
            if reader.seekable and fresh and len(data) - at < _ZST_PIECE:
                remaining = data[at:]
                break
            piece = data[at : at + _ZST_PIECE]
            at += len(piece)
            inside = True
            try:
                out = frame.decompress(piece)
            except zstandard.ZstdError as error:
                where = reader.offset - len(data) + at - len(piece)
                raise BrokenDataError(
                    f"zstd data is damaged after byte {where} of the file: {_reason(error)}"
                ) from None
            if out:
                yield out
            if frame.eof:
                at -= len(frame.unused_data)
                frame, inside, frames = unzip.decompressobj(), False, frames + 1
    if inside or not frames:
        raise BrokenDataError(
            f"zstd data ends too early, at byte {reader.offset} of the file: it is truncated"
        )


def _reason(error: Exception) -> str:
    """Returns a library's message without its own preamble."""
    return str(error).rpartition(": ")[2]


def zstandard_module(path: str) -> ModuleType:
    """Returns the package zstandard. Raises UsageError where it is not installed."""
    try:
        return importlib.import_module("zstandard")
    except ImportError:
        raise UsageError(
            f"{path}: reading .zst needs the package zstandard; run `pip install zstandard`"
        ) from None
