"""Says which rows a step reads, and makes tensors of them.

Input: the rows of a corpus, a seed and a step. Output: the step's rows. They depend on seed and
step alone, so resuming a run is arithmetic, and the number of processes does not matter (invariant
9).

Two phases with three rows each, 4 steps of 2 rows. In the second phase, one row of each batch is
replayed from the first phase:

>>> phases = [(1, [np.array([n]) for n in (0, 1, 2)]), (2, [np.array([n]) for n in (3, 4, 5)])]
>>> for stage in stages(phases, steps=4, size=2, replay=0.5, seed=0):
...     for step in range(stage.begin, stage.end):
...         print(step, stage.phase, [int(row[0]) for row in stage.rows(step, 2)])
0 1 [2, 0]
1 1 [1, 0]
2 2 [5, 0]
3 2 [3, 1]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mypt_train.training.corpus import Corpus, Row


@dataclass(frozen=True)
class Batch:
    """Rows as tensors, as wide as the longest row.

    - `ids`: int64, (rows, width). `at`: int64, (rows, width), positions, which start again with
      each episode.
    - `places`: int64, (m,), the tokens before targets, counted through all rows.
    - `targets`: int64, (m,), the ids to be predicted there.
    - `owner`: int64, (m,), the episode of each target, counted through the batch.
    - `weights`: float32, (m,), how much each target counts; None if each counts 1.
    - `lengths`: the lengths of the episodes of each row. `rows`: their numbers in the corpus.
    """

    ids: Tensor
    at: Tensor
    places: Tensor
    targets: Tensor
    owner: Tensor
    lengths: tuple[tuple[int, ...], ...]
    rows: tuple[Row, ...]
    weights: Tensor | None = None

    def to(self, device: torch.device) -> Batch:
        moved: dict[str, Any] = {
            name: value.to(device, non_blocking=True)
            for name, value in vars(self).items()
            if isinstance(value, Tensor)
        }
        return replace(self, **moved)

    @property
    def tokens(self) -> int:
        """Returns the number of tokens in all episodes, without padding."""
        return sum(map(sum, self.lengths)) if self.rows else 0


def idle(template: Batch) -> Batch:
    """Returns a batch that counts for nothing, for a process that has no rows when others have."""
    empty = template.places[:0]
    weights = None if template.weights is None else template.weights[:0]
    return replace(template, places=empty, targets=empty, owner=empty, rows=(), weights=weights)


def batch(corpus: Corpus, rows: Sequence[Row], *, every: bool = False) -> Batch:
    """Returns the tensors of some rows.

    With `every`, all tokens are targets, if a token of their episode is before them.
    """
    sizes = [tuple(corpus.episodes["length"][row].tolist()) for row in rows]
    width = max((sum(targets) for targets in sizes), default=1)
    ids = np.zeros((len(rows), width), np.int64)
    at = np.zeros((len(rows), width), np.int64)
    learnt = np.zeros((len(rows), width), bool)
    owner = np.zeros((len(rows), width), np.int64)
    weighs = corpus.weighed and not every
    weights = np.ones((len(rows), width), np.float32) if weighs else None
    number = 0
    for i, row in enumerate(rows):
        begin = 0
        for episode, size in zip(row.tolist(), sizes[i], strict=True):
            piece = slice(begin, begin + size)
            tokens, mask = corpus.tokens(episode)
            ids[i, piece], at[i, piece], owner[i, piece] = tokens, np.arange(size), number
            learnt[i, piece] = True if every else mask
            learnt[i, begin] = False
            if weights is not None and (factors := corpus.weights(episode)) is not None:
                weights[i, piece] = factors
            begin, number = begin + size, number + 1
    targets = np.flatnonzero(learnt.reshape(-1))
    flat = torch.from_numpy(targets)
    id_tensor, owners = torch.from_numpy(ids), torch.from_numpy(owner)
    return Batch(
        id_tensor,
        torch.from_numpy(at),
        flat - 1,
        id_tensor.reshape(-1)[flat],
        owners.reshape(-1)[flat],
        tuple(sizes),
        tuple(rows),
        None if weights is None else torch.from_numpy(weights.reshape(-1)[targets]),
    )


@dataclass(frozen=True, eq=False)
class Pool:
    """Rows that are read again and again, each time in another order.

    `key` tells the orders of this pool from those of others.
    """

    rows: Sequence[Row]
    key: tuple[int, ...]

    def row(self, index: int) -> Row:
        """Returns the row that is read as number `index`, counted from 0 without end."""
        epoch, at = divmod(index, len(self.rows))
        return self.rows[int(_order(self.key, epoch, len(self.rows))[at])]


@lru_cache(maxsize=16)
def _order(key: tuple[int, ...], epoch: int, size: int) -> npt.NDArray[np.int64]:
    return np.random.Generator(np.random.PCG64([*key, epoch])).permutation(size)


@dataclass(frozen=True, eq=False)
class Stage:
    """The steps that read the same rows: those of a phase, and some of the phases before.

    `begin` and `end` are steps. `replayed` is the number of rows of `old` in each batch.
    """

    begin: int
    end: int
    phase: int | None
    fresh: Pool
    old: Pool | None
    replayed: int

    def rows(self, step: int, size: int) -> list[Row]:
        """Returns all rows of a step, over all processes; `size` is their number."""
        here = step - self.begin
        fresh = size - self.replayed
        out = [self.fresh.row(here * fresh + i) for i in range(fresh)]
        if self.old is not None:
            out += [self.old.row(here * self.replayed + i) for i in range(self.replayed)]
        return out


def stages(
    pools: Sequence[tuple[int | None, Sequence[Row]]],
    *,
    steps: int,
    size: int,
    replay: float,
    seed: int,
) -> list[Stage]:
    """Returns the stages of a run: the phases in order, with equal numbers of steps.

    `pools` are the rows of each phase. `size` is the number of rows in a batch, and `replay` the
    share of them that comes from the phases before.
    """
    bounds = [round(steps * i / len(pools)) for i in range(len(pools) + 1)]
    out = []
    for i, ((phase, rows), (begin, end)) in enumerate(zip(pools, pairwise(bounds), strict=True)):
        before = [row for _, earlier in pools[:i] for row in earlier]
        replayed = min(size - 1, round(size * replay)) if before else 0
        fresh = Pool(rows, (seed, i, 0))
        old = Pool(before, (seed, i, 1)) if replayed else None
        out.append(Stage(begin, end, phase, fresh, old, replayed))
    return out


def share(rows: Sequence[Row], rank: int, world_size: int, micro: int) -> list[list[Row]]:
    """Returns the rows of a step that one process reads, in lists of at most `micro`.

    All processes have equally many lists, since they run the model together; where rows cannot be
    shared evenly, the last lists of some are empty.
    """
    part = rows[rank * len(rows) // world_size : (rank + 1) * len(rows) // world_size]
    most = -(-len(rows) // world_size)
    return [list(part[i : i + micro]) for i in range(0, most, micro)]
