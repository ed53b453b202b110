"""Choose the dialects that shared suites run for.

`thorough` takes all. The quick suite takes the smallest set of dialects in which every feature
occurs that any token table has: kinds of body, of ids, of tags, of history and of vocabulary. A new
dialect joins the set if its table has a feature that no other has, or has many at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import combinations

import mypt_spec
from mypt_spec.table import LISTS, Terminal
from tests.support.examples import either

Features = frozenset[tuple[str, object]]


def features(name: str) -> Features:
    """Returns what the token table of a dialect makes use of, as pairs of a column and a value."""
    table = mypt_spec.dialect(name).table
    terminals = list(table.terminals.values())
    pairs: set[tuple[str, object]] = {
        ("all tags are text", all(_form(terminal) == "text" for terminal in terminals)),
        ("encoded together", table.glue),
        ("layouts", len(table.layouts) > 1),
        ("phases", bool(table.phases)),
        ("vocabulary", table.required.kind if table.required else table.base_vocabulary),
        ("history", "empty where last" if table.history.last else bool(table.history.drops)),
    }
    for terminal in terminals:
        pairs.add(("tag", _form(terminal)))
        pairs |= {("piece", piece.kind) for piece in terminal.spelling}
        pairs |= {("tag", column) for column in _COLUMNS if getattr(terminal, column)}
        if terminal.opens:
            pairs.add(("body", terminal.body))
            pairs.add(("ids of calls", terminal.body in LISTS))
            pairs.add(("role", terminal.role))
            pairs.add(("written by another than its tag", bool(terminal.body_origin)))
    return frozenset(pairs)


_COLUMNS = (
    "shared",
    "mark",
    "again",
    "both",
    "joins",
    "after",
    "before",
    "also",
    "quotes",
    "trail",
)


def _form(terminal: Terminal) -> str:
    kinds = [piece.kind for piece in terminal.spelling]
    if kinds == ["special"]:
        return "one id"
    return "ids and text" if "special" in kinds else "text"


def smallest_cover(columns: Mapping[str, Collection[object]]) -> tuple[str, ...]:
    """Returns the fewest names that have, together, all that any has; the first such in order."""
    everything = set().union(*columns.values())
    for size in range(1, len(columns) + 1):
        for names in combinations(columns, size):
            if everything <= set().union(*(columns[name] for name in names)):
                return names
    return ()


ALL = tuple(mypt_spec.dialects())
COVER = smallest_cover({name: features(name) for name in ALL})
DIALECTS = either(COVER, ALL)
# For long tests of what formats have in common: calls one by one, in lists, and up to the next tag;
# tags of one id, and of text.
FEW = either(("harmony", "mistral-v13", "mypt", "usf-omega"), ALL)
