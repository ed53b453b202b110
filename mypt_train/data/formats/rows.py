"""Writes rows of tokens for trainers of elsewhere: TRL, axolotl, SkyRL and verl.

Input: ids, targets, and the lengths of the episodes of each row. Output: the bytes of a file of
JSONL or Parquet, a row each. `input_ids` and `labels` have an item for each token; a label is the
token's id, or IGNORED where it is no target. Neither labels nor `loss_mask` are shifted, for
trainers do that. Rows have no padding, because trainers pad a batch to its longest row.

Rows for TRL that hold several episodes have `seq_lengths`, from which its collator makes positions.
All others hold one episode, so `attention_mask` is 1 everywhere and `position_ids` count from 0.
SkyRL's `loss_mask` begins at the first target: it is that of the last `num_actions` tokens.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mypt_train.data.formats import MESSAGES, TRAINERS
from mypt_train.data.formats.parquet import Column, of_lists

IGNORED = -100
_TYPES = {"attention_mask": "int8", "loss_mask": "int8"}  # of items; all others are int32
Rows = list[list[int]]
"""The lengths of the episodes of each row."""
Arrays = Sequence[npt.NDArray[Any]]
"""Ids, targets and, if they are asked for, the messages that tokens come from."""


def lines(trainer: str, arrays: Arrays, rows: Rows, *, packed: bool) -> Iterator[memoryview]:
    """Yields rows as lines of JSON. `packed` says that a row may hold several episodes."""
    columns = {
        name: (items, None if begins is None else [*begins.tolist(), len(items)])
        for name, (items, begins) in _columns(trainer, arrays, rows, packed=packed).items()
    }
    for n in range(len(rows)):
        row = {
            name: (items[n] if bounds is None else items[bounds[n] : bounds[n + 1]]).tolist()
            for name, (items, bounds) in columns.items()
        }
        yield memoryview(json.dumps(row, separators=(",", ":")).encode() + b"\n")


def parquet(trainer: str, arrays: Arrays, rows: Rows, *, packed: bool) -> memoryview:
    """Returns the bytes of a Parquet file of rows. Needs pyarrow."""
    columns = _columns(trainer, arrays, rows, packed=packed)
    return of_lists({
        name: (items.astype(_TYPES.get(name, "int32")), begins)
        for name, (items, begins) in columns.items()
    })  # fmt: skip


def _columns(trainer: str, arrays: Arrays, rows: Rows, *, packed: bool) -> dict[str, Column]:
    ids, mask, *messages = arrays
    sizes = np.array([sum(lengths) for lengths in rows], np.int64)
    begins = np.cumsum(sizes) - sizes
    columns: dict[str, Column] = {
        "input_ids": (ids, begins),
        "labels": (np.where(mask != 0, ids.astype(np.int32), np.int32(IGNORED)), begins),
        "attention_mask": (np.ones(len(ids), np.int8), begins),
        "position_ids": (np.arange(len(ids)) - np.repeat(begins, sizes), begins),
        "loss_mask": (mask, begins),
    }
    if "num_actions" in TRAINERS[trainer]:
        targets = np.append(np.flatnonzero(mask), len(ids))
        first = np.minimum(targets[np.searchsorted(targets, begins)], begins + sizes)
        actions = begins + sizes - first
        acting = np.arange(len(ids)) >= np.repeat(first, sizes)
        columns["num_actions"] = actions, None
        columns["loss_mask"] = mask[acting], np.cumsum(actions) - actions
    chosen = {name: columns[name] for name in TRAINERS[trainer]}
    if messages:
        chosen[MESSAGES] = messages[0], begins
    if packed:
        counts = np.array([len(lengths) for lengths in rows], np.int64)
        every = np.array([length for lengths in rows for length in lengths], np.int32)
        chosen["seq_lengths"] = every, np.cumsum(counts) - counts
    return chosen
