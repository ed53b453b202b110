"""Sums tokens by block over many items."""

from __future__ import annotations

from typing import NamedTuple

from mypt_spec.table import TokenTable
from mypt_view.items import Item


class TagTotal(NamedTuple):
    """Tokens whose innermost block this is, its tags included; or those of a mark.

    `times` is how many such blocks or marks there are.
    """

    kind: str
    tag: str
    times: int
    tokens: int
    trained: int


class TagTotals:
    """Adds up items of one dialect. The rows add up to all tokens."""

    def __init__(self) -> None:
        self._rows: dict[str, list[int]] = {}
        self._table: TokenTable | None = None

    def add(self, item: Item) -> None:
        """Counts the tokens of an item."""
        table = self._table = item.dialect.table
        for segment in item.segments or ():
            event, inside = segment.event, segment.inside
            terminal = table.terminals.get(event.terminal)
            mark = terminal is not None and (
                terminal.mark or not (terminal.opens or terminal.closes)
            )
            kind = event.terminal.lower() if mark else inside[-1] if inside else ""
            row = self._rows.setdefault(kind, [0, 0, 0])
            row[0] += terminal is not None and (mark or bool(terminal.opens))
            row[1] += len(segment.ids)
            row[2] += sum(segment.losses)

    def rows(self) -> list[TagTotal]:
        """Returns one row for each block or mark that occurs, in the order of the token table."""
        terminals = self._table.terminals.values() if self._table is not None else ()
        order = {
            t.opens or t.name.lower(): t.shown
            for t in terminals
            if t.opens or t.mark or not t.closes
        }
        return [
            TagTotal(kind, tag, *self._rows[kind])
            for kind, tag in order.items()
            if kind in self._rows
        ]
