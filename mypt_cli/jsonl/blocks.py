r"""Cuts a source into blocks of whole lines, in constant memory.

Lines end at the byte `\n` and nowhere else. All file errors are raised as `UsageError`; damaged
compressed data is not: it is a fault of the data and arrives in the last `Block`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import BinaryIO, Literal, NamedTuple

from mypt_cli.errors import UsageError, unreadable
from mypt_cli.jsonl.compression import CHUNK, BrokenDataError, FileReader, gather, unpack
from mypt_spec.findings import Finding

Packing = Literal["", "gz", "zst"]
BLOCK_SIZE = 1 << 20
MAX_LINE = 64 << 20
STDIN = "<stdin>"
HEAD = 200  # bytes kept of a line that is too long


@dataclass(frozen=True, slots=True)
class Source:
    """A source to read. `size` is its bytes on disk, None for one that is not a regular file.

    `stream` is read in place of the file when it is given, from its present position, and is left
    open. `etag` is that of an object in a store, whose URL is then `path`; it is read only as long
    as its ETag is this one.
    """

    path: str
    compressed: Packing = ""
    size: int | None = None
    stdin: bool = False
    stream: BinaryIO | None = field(default=None, compare=False, repr=False)
    etag: str = ""

    @property
    def remote(self) -> bool:
        """Returns whether it is an object in a store."""
        return bool(self.etag)

    @property
    def streamed(self) -> bool:
        """Returns whether it can be read only once."""
        return self.size is None or self.stdin or self.stream is not None

    @property
    def divisible(self) -> bool:
        """Returns whether parts of it can be read by themselves: it is a plain regular file."""
        return not (self.streamed or self.compressed or self.remote)

    def open(self) -> BinaryIO:
        """Returns the bytes on disk. Close them only if they are neither `stream` nor stdin."""
        if self.stream is not None:
            return self.stream
        if self.stdin:
            if sys.stdin is None:
                raise UsageError(f"{STDIN}: there is no standard input; name a file or a folder")
            return sys.stdin.buffer
        if self.remote:
            from mypt_cli.store import locate  # needs a package that not everyone has

            store, key = locate(self.path)
            return store.open(key, etag=self.etag, size=self.size)
        try:
            return open(self.path, "rb")
        except OSError as error:
            raise unreadable(self.path, error) from None


class Origin(NamedTuple):
    """The place of a record that is no line of its file: in a JSON array.

    `row` and `column` are those of its first character, from 1; `raw` is its bytes in the file.
    """

    row: int
    column: int
    raw: bytes


class Block(NamedTuple):
    r"""Whole lines, each with its `\n` (the last line of a source may lack it).

    `first_row` is the row of its first line, from 1; in a byte range it counts from the start of
    the range. `position` is how far the source is read, in bytes on disk from the start of the
    file. `too_long` is the length in bytes, without `\n`, of a line that is too long, which is then
    the only one; `data` is then its first 200 bytes. `broken` says why the source ends too early;
    `data` is then the unfinished line that came last, maybe empty.

    Of a source that is no JSONL, `lines` are its records as JSON, one line each, and rows count
    records. `origins` has the place of each in a JSON array. `fault` is what is wrong with the file
    there, at the one item of `origins` if it has one; `broken` is then its message.
    """

    data: bytes
    first_row: int
    position: int
    too_long: int = 0
    broken: str = ""
    kind: str = "lines"
    origins: tuple[Origin, ...] = ()
    fault: Finding | None = None

    def finding(self) -> Finding:
        """Returns the finding about a block that is broken."""
        hint = "the file is incomplete or damaged: compress it again from its source"
        return self.fault or Finding("MYP003", self.broken, help=hint)

    def lines(self) -> list[bytes]:
        r"""Returns the lines without their `\n`; row `first_row + i` is item i."""
        parts = self.data.split(b"\n")
        if not parts[-1] and not self.too_long:
            parts.pop()
        return parts


def ranges(source: Source, *, size: int) -> list[tuple[int, int]]:
    """Returns byte ranges `[start, end)` of about `size` bytes and of whole lines, for `blocks`.

    Together they hold all lines. There are none for an empty file and for a source that cannot be
    divided: read that one from end to end.
    """
    if size < 1:
        raise ValueError(f"size of a range is {size}, expected at least 1")
    out: list[tuple[int, int]] = []
    if not source.divisible:
        return out
    with source.open() as stream:
        total = os.fstat(stream.fileno()).st_size
        start = 0
        while start < total:
            # From one byte before, so that a range may end exactly at a newline there.
            reader = FileReader(stream, source.path, start + size - 1)
            end = total
            while data := reader.read(min(CHUNK, max(size, 512))):
                if (at := data.find(b"\n")) >= 0:
                    end = reader.offset - len(data) + at + 1
                    break
            out.append((start, end))
            start = end
    return out


def blocks(
    source: Source,
    *,
    block_size: int = BLOCK_SIZE,
    max_line: int = MAX_LINE,
    start: int = 0,
    end: int | None = None,
) -> Iterator[Block]:
    """Yields the lines of a source, in blocks of about `block_size` decompressed bytes.

    Blocks are smaller where a stream has less at a time. Holds a few blocks and one line of at most
    `max_line` bytes; a longer line is only counted. `start` and `end` are a range from `ranges`.
    Raises UsageError where the file cannot be read.
    """
    if (start or end is not None) and not source.divisible:
        raise ValueError(f"{source.path} cannot be read in parts")
    with opened(source) as stream:
        reader = FileReader(stream, source.path, start, end)
        yield from cut_lines(content(source, reader, block_size), reader, max_line=max_line)


@contextmanager
def opened(source: Source) -> Iterator[BinaryIO]:
    """Opens a source, and closes it after use unless it was open before."""
    stream = source.open()
    try:
        yield stream
    finally:
        if not source.stdin and source.stream is None:
            stream.close()


class Unfinished:
    """The beginning of a line or record whose end is not read yet.

    `length` is its bytes. Of more than `limit` bytes, only the first HEAD are held.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.length = 0
        self._buffer = BytesIO()

    @property
    def too_long(self) -> int:
        """Returns the number of bytes if they are too many, otherwise 0."""
        return self.length if self.length > self.limit else 0

    def add(self, piece: bytes) -> None:
        self.length += len(piece)
        if not self.too_long:
            self._buffer.write(piece)
            return
        head = self._buffer.getvalue()[:HEAD]
        self._buffer = BytesIO()
        self._buffer.write(head + piece[: HEAD - len(head)])

    def complete(self, end: bytes = b"") -> bytes:
        """Returns the bytes in the buffer, with their end unless they are too long."""
        self._buffer.write(b"" if self.too_long else end)
        return self._buffer.getvalue()


def cut_lines(pieces: Iterator[bytes], reader: FileReader, *, max_line: int) -> Iterator[Block]:
    """Yields the lines in pieces of decompressed bytes that `reader` has read.

    Holds at most one unfinished line.
    """
    row, line, broken = 1, Unfinished(max_line), ""

    def block(end: bytes) -> Block:
        return Block(line.complete(end), row, reader.offset, line.too_long, broken)

    try:
        for data in pieces:
            start, end = 0, data.rfind(b"\n") + 1
            tail = data[end:]
            if 0 < line.length <= min(max_line, end - 1):
                data = b"".join((line.complete(), memoryview(data)[:end]))
                line, end = Unfinished(max_line), len(data)
            # Otherwise the end of a long line is a block, and so is each that may be too long.
            while start < end and (line.length or end - start > max_line):
                newline = data.index(b"\n", start)
                line.add(data[start:newline])
                yield block(b"\n")
                row, line, start = row + 1, Unfinished(max_line), newline + 1
            if start < end:
                yield Block(data[start:end], row, reader.offset)
                row += data.count(b"\n", start)
            line.add(tail)
    except BrokenDataError as error:
        broken = str(error)
    if line.length or broken:
        yield block(b"")


def content(source: Source, reader: FileReader, size: int) -> Iterator[bytes]:
    """Yields decompressed bytes in pieces. Raises BrokenDataError after the last good piece."""
    if source.compressed:
        yield from gather(unpack(reader, is_gzip=source.compressed == "gz"), size)
    else:
        while data := reader.read(size):
            yield data
