"""Reads records from any file that holds them: JSONL, one JSON array, Parquet.

Input is a source; output are blocks as of JSONL, a record a line. How a file holds its records is
found from its first bytes, not from its name. An object over several lines is a record, unless the
name promises JSONL, which nothing else reads so. An object around records is a finding, no guess.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from shlex import quote

from mypt_cli.jsonl.blocks import (
    BLOCK_SIZE,
    MAX_LINE,
    Block,
    Origin,
    Source,
    blocks,
    content,
    cut_lines,
    opened,
    ranges,
)
from mypt_cli.jsonl.compression import BrokenDataError, FileReader
from mypt_cli.jsonl.layout import HEAD, LINES, RECORD, Layout, layout_of, records_in_array
from mypt_cli.jsonl.names import is_json
from mypt_spec.findings import Finding

_JSONL = (".jsonl", ".ndjson")  # names that promise a record a line


def record_blocks(
    source: Source,
    *,
    block_size: int = BLOCK_SIZE,
    max_line: int = MAX_LINE,
    start: int = 0,
    end: int | None = None,
) -> Iterator[Block]:
    """Yields the records of a source, one a line, in blocks of about `block_size` bytes.

    Of JSONL, these are the blocks of `blocks`. `start` and `end` are a range of `record_ranges`.
    """
    if start or end is not None:
        yield from blocks(source, block_size=block_size, max_line=max_line, start=start, end=end)
        return
    with opened(source) as stream:
        reader = FileReader(stream, source.path)
        layout, pieces = _detect_layout(content(source, reader, block_size))
        if layout.kind == "lines":
            yield from cut_lines(pieces, reader, max_line=max_line)
        elif layout.kind == "events":
            yield from _as_one(cut_lines(pieces, reader, max_line=max_line), max_line)
        elif layout.kind == "array" or (layout == RECORD and not is_json(source.path, _JSONL)):
            from mypt_cli.jsonl.array import cut_array  # loaded only where it is needed

            yield from cut_array(pieces, reader, max_line=max_line, alone=layout == RECORD)
        elif layout.kind == "parquet":
            from mypt_cli.jsonl.parquet import parquet_blocks

            again = stream if source.remote else None  # it is read by ranges, from its end on
            yield from parquet_blocks(
                source, block_size=block_size, max_line=max_line, stream=again
            )
        elif layout.other is not None:
            message = f"the file is {layout.other.what}, not JSONL"
            fault = Finding("MYP017", message, help=layout.other.advice)
            yield Block(b"", 1, reader.offset, broken=message, kind="other", fault=fault)
        else:
            yield _in_object(layout, source, reader.offset)


def _as_one(lines: Iterator[Block], max_line: int) -> Iterator[Block]:
    """Yields the lines of a trace as one record: the list of their values."""
    data, position = bytearray(), 0
    for block in lines:
        data += block.data
        position = block.position
        if block.broken or block.too_long or len(data) > max_line:
            size = 0 if block.broken else max(block.too_long, len(data))
            yield block._replace(data=bytes(data[:HEAD]), first_row=1, too_long=size)
            return
    data = data.rstrip()
    row, last = data.count(b"\n") + 1, data.rpartition(b"\n")[2]
    if not last.endswith(b"}"):
        fault = Finding("MYP286", "the trace ends inside of this event")
        at = (Origin(row, 1, bytes(last[:HEAD])),)
        yield Block(b"", 1, position, broken=fault.message, kind="array", origins=at, fault=fault)
        return
    raw = b"[" + data.replace(b"\n", b",\n") + b"]"
    record = raw.replace(b"\n", b" ") + b"\n"
    yield Block(record, 1, position, kind="array", origins=(Origin(1, 0, raw),))


def record_ranges(source: Source, *, size: int) -> list[tuple[int, int]]:
    """Returns the byte ranges of JSONL, as `ranges`; none of what cannot be divided."""
    return ranges(source, size=size) if has_lines(source) else []


def has_lines(source: Source) -> bool:
    """Returns whether a source can be divided into lines. Raises UsageError if it is unreadable."""
    return source.divisible and _layout(source) == LINES


def holds_json(source: Source) -> bool:
    """Returns whether a file may hold JSON or Parquet. Raises UsageError if it is unreadable."""
    return not source.divisible or _layout(source).kind != "other"


def _layout(source: Source) -> Layout:
    with source.open() as stream:
        head = FileReader(stream, source.path).read(HEAD)
    return layout_of(head, ended=True) or LINES


def holds_records(source: Source) -> bool:
    """Returns whether a file is a JSON array of objects with a key that records have."""
    head = b""
    with source.open() as stream, suppress(BrokenDataError):
        for piece in content(source, FileReader(stream, source.path), HEAD):
            head += piece
            if len(head) >= HEAD:
                break
    return records_in_array(head)


def _detect_layout(pieces: Iterator[bytes]) -> tuple[Layout, Iterator[bytes]]:
    head: list[bytes] = []
    broken: BrokenDataError | None = None
    layout = None
    while layout is None:
        try:
            piece = next(pieces, b"")
        except BrokenDataError as error:
            piece, broken = b"", error
        head += [piece] if piece else []
        layout = layout_of(b"".join(head), ended=not piece)

    def all_pieces() -> Iterator[bytes]:
        yield from head
        if broken is not None:
            raise broken
        yield from pieces

    return layout, all_pieces()


def _in_object(layout: Layout, source: Source, position: int) -> Block:
    unpack = {"": "", "gz": "zcat", "zst": "zstdcat"}[source.compressed]
    unpack = f"{unpack} {quote(source.path)} | " if unpack else ""
    file = "" if source.stdin or source.compressed else f" {quote(source.path)}"
    jq = f"{unpack}jq -c"
    if layout.key:
        message = f"the records are in a list under the key {layout.key!r} of one object"
        path = quote(f".[{json.dumps(layout.key)}][]")
        hint = f"write each on a line of its own: {jq} {path}{file} > NEW.jsonl"
    else:
        message = "a record goes over several lines; each line of JSONL is one record"
        hint = f"write each on one line: {jq} .{file} > NEW.jsonl; or put all into one JSON array"
    fault = Finding("MYP016", message, help=hint)
    at = (Origin(1, 1, b"{"),)
    return Block(b"", 1, position, broken=message, kind="object", origins=at, fault=fault)
