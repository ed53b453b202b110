"""Reads records as JSON values, in constant memory."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from mypt_cli.jsonl.blocks import Block, Source
from mypt_cli.jsonl.line import read_line
from mypt_cli.jsonl.records import record_blocks
from mypt_spec.findings import Finding

MAX_LINE = 8 << 20  # bytes of a record; several copies of a line are held while it is read


class Line(NamedTuple):
    """One record of a source: its JSON value, or why it has none.

    `row` is its line, its row, or its place in an array; `position` counts bytes on disk. `spots`
    is what else is wrong with the line itself.
    """

    path: str
    row: int
    position: int
    value: Any = None
    fault: Finding | None = None
    spots: tuple[Finding, ...] = ()


def lines(source: Source) -> Iterator[Line]:
    """Yields each record of a source, in constant memory. Raises UsageError for unreadable ones."""
    for block in record_blocks(source, max_line=MAX_LINE):
        if block.too_long or block.broken:
            yield Line(source.path, block.first_row, block.position, fault=unread(block))
            continue
        for row, raw in enumerate(block.lines(), block.first_row):
            line = read_line(raw, first=row == 1)
            fault = line.fault.finding if line.fault is not None else None
            spots = tuple(spot.finding for spot in line.spots)
            yield Line(source.path, row, block.position, line.value, fault, spots)


def unread(block: Block) -> Finding:
    """Returns the finding about the one line of a block that cannot be read."""
    if not block.too_long:
        return block.finding()
    unit, hint = "record", "split the conversation"
    if block.kind == "lines":
        unit, hint = "line", f"{hint}, or check that lines end in LF"
    message = f"the {unit} has {block.too_long:,} bytes; at most {MAX_LINE:,} are read"
    return Finding("MYP007", message, help=hint)
