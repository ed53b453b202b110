"""Sums over items: tokens by block, and by the phase of the episode."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mypt_spec.view.items import Item, outline


class TagTotal(NamedTuple):
    """Tokens whose innermost block this is, its tags included; or those of a mark. `times`: how many there are."""

    kind: str
    tag: str
    times: int
    tokens: int
    trained: int


class PhaseTotal(NamedTuple):
    """Episodes whose first phase this is, and their tokens."""

    phase: int
    title: str
    episodes: int
    tokens: int
    trained: int


def by_tag(items: Iterable[Item]) -> list[TagTotal]:
    """One row a block or mark that occurs, in the order of the token table. The rows add up to all tokens."""
    rows: dict[str, list[int]] = {}
    order: dict[str, str] = {}
    for item in items:
        table = item.dialect.table
        order |= {
            t.opens or t.name.lower(): t.shown
            for t in table.terminals.values()
            if t.opens or t.mark or not t.closes
        }
        for event, ids, loss, inside in item.segments or ():
            terminal = table.terminals.get(event.terminal)
            mark = terminal is not None and (
                terminal.mark or not (terminal.opens or terminal.closes)
            )
            kind = event.terminal.lower() if mark else inside[-1] if inside else ""
            row = rows.setdefault(kind, [0, 0, 0])
            row[0] += terminal is not None and (mark or bool(terminal.opens))
            row[1] += len(ids)
            row[2] += len(ids) * loss
    return [TagTotal(kind, tag, *rows[kind]) for kind, tag in order.items() if kind in rows]


def by_phase(items: Sequence[Item]) -> list[PhaseTotal]:
    """One row a phase of the dialect, empty ones too; no rows where it has none."""
    titles = items[0].dialect.table.phases if items else ()
    rows = [[0, 0, 0] for _ in titles]
    for item in items:
        phase = outline(item)[1]
        if phase is not None:
            row = rows[phase - 1]
            row[0] += 1
            row[1] += len(item.ids)
            row[2] += sum(item.loss)
    return [
        PhaseTotal(n, title, *row)
        for n, (title, row) in enumerate(zip(titles, rows, strict=True), 1)
    ]
