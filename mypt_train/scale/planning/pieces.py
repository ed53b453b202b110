"""Cuts an input into pieces that can be read by themselves, and reads one of them.

Input: a local file, or an object of a store. A piece is a range of its bytes, of row groups of
Parquet, or all of it. Output: blocks of lines, each line in exactly one piece.

A range of bytes is cut without a look at the data, so that a plan of a terabyte needs no reading.
Its lines are those that begin in it: it leaves out all up to its first line end, unless it begins
the input, and goes on after its end up to a line end. A line that begins exactly at an end belongs
to the piece before.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Literal, NamedTuple, cast

from mypt_cli.errors import unreadable
from mypt_cli.jsonl.blocks import Block, Packing, Source, content, cut_lines
from mypt_cli.jsonl.compression import CHUNK, FileReader
from mypt_cli.jsonl.parquet import parquet_blocks
from mypt_cli.jsonl.records import record_blocks
from mypt_cli.jsonl.values import MAX_LINE
from mypt_cli.store import is_url, locate
from mypt_lint.settings.settings import NO_SETTINGS, Settings

Cut = Literal["lines", "rows", "whole"]
# What the system says of a file: size, times of writing and of change in ns, inode and device.
Stamp = tuple[int, int, int, int, int]
# Packed bytes count as so many.
PACKED = 4
# Bytes on disk that are read at a time.
BLOCK = 1 << 20


class Input(NamedTuple):
    """An input as it was when it was listed.

    `bytes` are those on disk. A local file has `sha256`, and the `stamp` that it had before it was
    hashed, an object of a store `etag`. `rules` are the settings of `mypt-lint` that decide which
    lines are refused.
    """

    path: str
    bytes: int
    cut: Cut
    packing: Packing = ""
    sha256: str = ""
    etag: str = ""
    rules: Settings = NO_SETTINGS
    stamp: Stamp | None = None

    @property
    def local(self) -> bool:
        """Returns whether it is a file, not an object of a store."""
        return not is_url(self.path)

    @property
    def expansion(self) -> int:
        """Returns about how many times its size its records have as lines of JSON."""
        return PACKED if self.packing or self.cut == "rows" else 1

    def described(self) -> dict[str, Any]:
        """Returns what the manifest says of it: what pins it, and settings if there are some."""
        pin = {"sha256": self.sha256} if self.local else {"etag": self.etag}
        settings = json.loads(json.dumps(dict(self.rules.values)))
        return {"path": self.path} | pin | ({"settings": settings} if settings else {})


class Piece(NamedTuple):
    """A piece of an input: bytes `start` to `end` of the file, or row groups if it is cut so.

    `file` is the number of the input.
    """

    file: int
    start: int
    end: int


@contextmanager
def opened(source: Input) -> Iterator[BinaryIO]:
    """Opens an input, to be read and sought in.

    Raises UsageError if it is not there, or is an object that has changed.
    """
    if source.local:
        try:
            stream: BinaryIO = open(source.path, "rb")  # noqa: SIM115
        except OSError as error:
            raise unreadable(source.path, error) from None
    else:
        store, key = locate(source.path)
        reader = store.open(key, etag=source.etag, size=source.bytes)
        stream = cast("BinaryIO", reader)
    with stream:
        yield stream


def piece_blocks(source: Input, piece: Piece, *, block_size: int = BLOCK) -> Iterator[Block]:
    """Yields the records of a piece, one a line; their rows count from 1 in the piece.

    Raises UsageError if the input cannot be read.
    """
    with opened(source) as stream:
        if source.cut == "rows":
            yield from parquet_blocks(
                Source(source.path, size=source.bytes),
                block_size=block_size,
                max_line=MAX_LINE,
                groups=range(piece.start, piece.end),
                stream=stream,
            )
        elif source.cut == "whole":
            file = Source(source.path, source.packing, source.bytes, stream=stream)
            yield from record_blocks(file, block_size=block_size, max_line=MAX_LINE)
        else:
            yield from _lines(source, piece, stream, block_size)


def _lines(source: Input, piece: Piece, stream: BinaryIO, size: int) -> Iterator[Block]:
    """Yields the lines that begin in a piece, after its first byte and up to its end."""
    plain = Source(source.path)
    reader = FileReader(stream, source.path, piece.start, piece.end)

    def after() -> Iterator[bytes]:
        if piece.end < source.bytes:
            yield from content(plain, FileReader(stream, source.path, piece.end), min(size, CHUNK))

    owned = _owned(content(plain, reader, size), after, begins=not piece.start)
    yield from cut_lines(owned, reader, max_line=MAX_LINE)


def _owned(
    inside: Iterator[bytes], after: Callable[[], Iterator[bytes]], *, begins: bool
) -> Iterator[bytes]:
    """Yields the lines that begin in a piece; `begins` says that it begins its input.

    `after` returns what comes after the piece. If one line goes through all of it, it has none.
    """
    for data in inside:
        at = 0 if begins else data.find(b"\n") + 1
        begins = begins or at > 0
        if begins:
            yield data[at:]
    for data in after() if begins else ():
        at = data.find(b"\n") + 1
        yield data[: at or None]
        if at:
            return
