"""Writes rows of tokens for trainers of elsewhere: TRL and axolotl.

Input: ids, targets, and the lengths of the episodes of each row. Output: the bytes of a file of
JSONL or Parquet, a row each. `input_ids` and `labels` have an item for each token; a label is the
token's id, or IGNORED where it is no target. Labels are not shifted, for trainers do that. Rows
have no padding, because trainers pad a batch to its longest row.

Rows for TRL that hold several episodes have `seq_lengths`, from which its collator makes positions.
Rows for axolotl have `attention_mask`, which is 1 everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from mypt_train.data.formats import TRAINERS
from mypt_train.data.formats.manifest import TokenIds
from mypt_train.data.formats.parquet import of_lists

IGNORED = -100
_TYPES = {"attention_mask": "int8"}  # of a column's items; all others are int32
Rows = list[list[int]]
"""The lengths of the episodes of each row."""


def lines(
    trainer: str, ids: TokenIds, mask: npt.NDArray[np.uint8], rows: Rows, *, packed: bool
) -> Iterator[memoryview]:
    """Yields rows as lines of JSON. `packed` says that a row may hold several episodes."""
    columns = _columns(trainer, ids, mask)
    at = 0
    for lengths in rows:
        end = at + sum(lengths)
        row: dict[str, Any] = {name: values[at:end].tolist() for name, values in columns.items()}
        row |= {"seq_lengths": lengths} if packed else {}
        yield memoryview(json.dumps(row, separators=(",", ":")).encode() + b"\n")
        at = end


def parquet(
    trainer: str, ids: TokenIds, mask: npt.NDArray[np.uint8], rows: Rows, *, packed: bool
) -> memoryview:
    """Returns the bytes of a Parquet file of rows. Needs pyarrow."""
    begins = np.cumsum([0, *map(sum, rows)])[:-1]
    columns = {
        name: (items.astype(_TYPES.get(name, "int32")), begins)
        for name, items in _columns(trainer, ids, mask).items()
    }
    if packed:
        every = np.array([length for lengths in rows for length in lengths], np.int32)
        columns["seq_lengths"] = every, np.cumsum([0, *map(len, rows)])[:-1]
    return of_lists(columns)


def _columns(
    trainer: str, ids: TokenIds, mask: npt.NDArray[np.uint8]
) -> dict[str, npt.NDArray[Any]]:
    columns: dict[str, npt.NDArray[Any]] = {
        "input_ids": ids,
        "labels": np.where(mask != 0, ids.astype(np.int32), np.int32(IGNORED)),
        "attention_mask": np.ones(len(ids), np.int8),
    }
    return {name: columns[name] for name in TRAINERS[trainer]}
