"""Moves findings about a record to where the record is in its file.

A record of a JSON array, or a row of Parquet, is checked as a line of JSON. Input are the findings
of such a line; output are the same findings with the rows and columns of the file.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from mypt_cli.jsonl.blocks import Block, Origin
from mypt_lint.check.diagnostic import Diagnostic, Snippet


def placed(items: list[Diagnostic], block: Block, first_row: int | None = None) -> list[Diagnostic]:
    """Returns the findings of lines of a block with their places in its file.

    `first_row` is the row of the first line as the findings count it, by default the block's.
    """
    if block.kind == "lines" or not items:
        return items
    if block.kind == "parquet":
        return [item._replace(table=True, edit=None) for item in items]
    first = block.first_row if first_row is None else first_row
    by_record: dict[int, list[Diagnostic]] = {}
    for item in items:
        by_record.setdefault(item.row - first, []).append(item)
    out: list[Diagnostic] = []
    for index, of_record in by_record.items():
        inside = index < len(block.origins)
        out += _in_array(of_record, block.origins[index]) if inside else of_record
    return out


def _in_array(items: list[Diagnostic], origin: Origin) -> list[Diagnostic]:
    text = origin.raw.decode("utf-8", "replace")
    ends = [found.start() for found in re.finditer("\n", text)]
    line = text.replace("\n", " ")

    def place(offset: int) -> tuple[int, int]:
        """Returns (row, column) of an offset in the record."""
        before = bisect_left(ends, offset)
        shift = origin.column if not before else -ends[before - 1]
        return origin.row + before, offset + shift

    def moved(item: Diagnostic) -> Diagnostic:
        start, end = item.column - 1, item.end_column - 1
        row, column = place(start)
        end_row, end_column = place(end - 1) if end > start else (row, column - 1)
        snippet = item.snippet
        if ends and snippet == Snippet.around(line, start, end):
            before = bisect_left(ends, start)
            first = ends[before - 1] + 1 if before else 0
            last = ends[before] if before < len(ends) else len(text)
            snippet = Snippet.around(text[first:last], start - first, min(end, last) - first)
        edit, shift = None if ends else item.edit, origin.column - 1
        if edit is not None:
            edit = (edit[0] + shift, edit[1] + shift, edit[2])
        return item._replace(
            row=row,
            column=max(column, 1),  # the "[" of a trace is not in its file
            end_row=end_row,
            end_column=end_column + 1,
            snippet=snippet,
            edit=edit,
            record=item.row,
        )

    return list(map(moved, items))
