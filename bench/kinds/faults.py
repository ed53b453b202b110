"""The kinds of faults: each changes one record of a clean file, or the whole file."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from bench.kinds import shapes
from bench.kinds.shapes import Record

ROWS, BAD = 40, 23


class Kind(NamedTuple):
    """A kind of fault. `rows` are the numbers of the lines that have it, from 1; none: the file as a whole."""

    name: str
    group: str
    data: bytes
    rows: tuple[int, ...]
    suffix: str = ".jsonl"
    clean: bytes = b""


KINDS: list[Kind] = []


def _clean(shape: str, name: str, rows: int = ROWS) -> list[Record]:
    rng = random.Random(f"{shape} {name}")
    return [getattr(shapes, shape)(rng) for _ in range(rows)]


def as_bytes(records: list[Any]) -> bytes:
    lines = (r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in records)
    return "".join(line + "\n" for line in lines).encode(errors="surrogatepass")


def add(
    group: str,
    shape: str,
    name: str,
    change: Callable[[Record], Any],
    rows: tuple[int, ...] = (BAD,),
) -> None:
    """Adds a kind that changes single records: `change` works in place, or returns the record or line."""
    records: list[Any] = copy.deepcopy(_clean(shape, name))
    for row in rows:
        changed = change(records[row - 1])
        if changed is not None:
            records[row - 1] = changed
    KINDS.append(Kind(name, group, as_bytes(records), rows, clean=as_bytes(_clean(shape, name))))


def whole(
    group: str, shape: str, name: str, change: Callable[[list[Any], random.Random], Any], suffix: str = ".jsonl",
    rows: int = ROWS,
) -> None:  # fmt: skip
    """Adds a kind that changes the file: `change` works in place, or returns records or bytes."""
    records: list[Any] = copy.deepcopy(_clean(shape, name, rows))
    changed = change(records, random.Random(name))
    data = (
        changed if isinstance(changed, bytes) else as_bytes(records if changed is None else changed)
    )
    clean = b"" if suffix != ".jsonl" or group == "rows" else as_bytes(_clean(shape, name, rows))
    KINDS.append(Kind(name, group, data, (), suffix, clean))
