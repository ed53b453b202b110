"""Which rows a step reads, and their tensors.

A step's rows are a pure function of the seed and the step: resuming is arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mypt_train.training.corpus import Corpus, Row


@dataclass(frozen=True)
class Batch:
    """Rows as tensors. `ids` and positions `at`: int64, (rows, width); positions begin anew with
    each episode.

    `places`: the tokens in front of targets, counted through all rows, int64, (m,); `targets`: the
    ids to be told there, (m,). `owner`: for each target its episode, counted through the batch,
    (m,). `rows`: the numbers of the episodes, as in the corpus.
    """

    ids: Tensor
    at: Tensor
    places: Tensor
    targets: Tensor
    owner: Tensor
    lengths: tuple[tuple[int, ...], ...]
    rows: tuple[Row, ...]

    def to(self, device: torch.device) -> Batch:
        if device.type == "cpu":
            return self
        ids, at, places, targets, owner = (
            t.to(device, non_blocking=True)
            for t in (self.ids, self.at, self.places, self.targets, self.owner)
        )
        return Batch(ids, at, places, targets, owner, self.lengths, self.rows)

    @property
    def tokens(self) -> int:
        """All tokens of the episodes, without padding."""
        return sum(map(sum, self.lengths))


def batch(corpus: Corpus, rows: Sequence[Row], *, every: bool = False) -> Batch:
    """The tensors of some rows;

    `every` makes all tokens targets that have one in front of them. As wide as the longest row.
    """
    sizes = [tuple(corpus.episodes["length"][row].tolist()) for row in rows]
    width = max((sum(found) for found in sizes), default=1)
    ids = np.zeros((len(rows), width), np.int64)
    at = np.zeros((len(rows), width), np.int64)
    learnt = np.zeros((len(rows), width), bool)
    owner = np.zeros((len(rows), width), np.int64)
    number = 0
    for i, row in enumerate(rows):
        begin = 0
        for episode, size in zip(row.tolist(), sizes[i], strict=True):
            piece = slice(begin, begin + size)
            tokens, mask = corpus.tokens(episode)
            ids[i, piece], at[i, piece], owner[i, piece] = tokens, np.arange(size), number
            learnt[i, piece] = True if every else mask
            learnt[i, begin] = False
            begin, number = begin + size, number + 1
    found = np.flatnonzero(learnt.reshape(-1))
    flat = torch.from_numpy(found)
    whole, owners = torch.from_numpy(ids), torch.from_numpy(owner)
    return Batch(
        whole,
        torch.from_numpy(at),
        flat - 1,
        whole.reshape(-1)[flat],
        owners.reshape(-1)[flat],
        tuple(sizes),
        tuple(rows),
    )


@dataclass(frozen=True, eq=False)
class Pool:
    """Rows that are read again and again, each time in another order;

    `key` tells its orders from those of other pools.
    """

    rows: Sequence[Row]
    key: tuple[int, ...]

    def row(self, index: int) -> Row:
        """The row that is read as number `index`, counted from 0, for ever."""
        return self.rows[
            int(_order(self.key, index // len(self.rows), len(self.rows))[index % len(self.rows)])
        ]


@lru_cache(maxsize=16)
def _order(key: tuple[int, ...], epoch: int, size: int) -> npt.NDArray[np.int64]:
    return np.random.Generator(np.random.PCG64([*key, epoch])).permutation(size)


@dataclass(frozen=True, eq=False)
class Stage:
    """Steps that read from the same rows: those of a phase, and `replayed` rows of each batch from
    the phases before.
    """

    begin: int
    end: int
    phase: int | None
    fresh: Pool
    old: Pool | None
    replayed: int

    def rows(self, step: int, size: int) -> list[Row]:
        """All rows of a step, over all processes."""
        here = step - self.begin
        fresh = size - self.replayed
        out = [self.fresh.row(here * fresh + i) for i in range(fresh)]
        return out + [
            self.old.row(here * self.replayed + i)
            for i in range(self.replayed)
            if self.old is not None
        ]


def stages(
    pools: Sequence[tuple[int | None, Sequence[Row]]],
    *,
    steps: int,
    size: int,
    replay: float,
    seed: int,
) -> list[Stage]:
    """The phases in order, with equal numbers of steps. One pool makes one stage without replay."""
    bounds = [round(steps * i / len(pools)) for i in range(len(pools) + 1)]
    out = []
    for i, ((phase, rows), (begin, end)) in enumerate(zip(pools, pairwise(bounds), strict=True)):
        before = [row for _, earlier in pools[:i] for row in earlier]
        replayed = min(size - 1, round(size * replay)) if before else 0
        out.append(
            Stage(
                begin,
                end,
                phase,
                Pool(rows, (seed, i, 0)),
                Pool(before, (seed, i, 1)) if replayed else None,
                replayed,
            )
        )
    return out


def share(rows: Sequence[Row], rank: int, ranks: int, micro: int) -> list[list[Row]]:
    """The rows of a step that a process reads, in lists of at most `micro`."""
    each = len(rows) // ranks
    own = rows[rank * each : (rank + 1) * each]
    return [list(own[i : i + micro]) for i in range(0, len(own), micro)]
