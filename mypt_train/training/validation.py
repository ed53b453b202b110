"""Measures how well a model predicts the trained tokens of the validation split.

Input: a model and rows. Output: loss and accuracy, in all, by tag, and by phase of the curriculum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mypt_train.training.batches import Batch, batch
from mypt_train.training.corpus import Corpus, Row
from mypt_train.training.objective import Objective
from mypt_train.training.parts.distributed import reshard


@torch.no_grad()
def validate(
    objective: Objective, model: nn.Module, corpus: Corpus, rows: Sequence[Row], micro: int
) -> dict[str, Any]:
    """Returns `loss` (mean over trained tokens), `accuracy` and `tokens`.

    The same is in `tags` and `phases`, by tag and phase. The figures are over all processes. A tag
    of one id is counted by its spelling, everything else as "text". If there are more processes
    than rows, some repeat a row that counts for nothing, so that all processes take part in each
    forward pass.
    """
    world, names = objective.world, {i: tag for tag, i in corpus.dialect.tokenizer.special.items()}
    groups = ["text", *names.values()]
    by_id = torch.zeros(corpus.dialect.tokenizer.vocab_size, dtype=torch.int64)
    for number, name in names.items():
        by_id[number] = groups.index(name)
    phases = corpus.phases
    sums = torch.zeros(len(groups) + len(phases), 3, dtype=torch.float64)
    for begin in range(0, len(rows), micro * world.size):
        here = rows[begin : begin + micro * world.size][world.rank :: world.size]
        part = batch(corpus, here or rows[:1]).to(world.device)
        _, losses, right = objective.token_losses(model, part)
        if here:
            _add(sums, by_id, part, losses, right, corpus, len(groups))
    reshard(model)
    world.sum(sums) if world.device.type == "cpu" else sums.copy_(
        world.sum(sums.to(world.device)).cpu()
    )
    total = sums[: len(groups)].sum(dim=0)
    return _figures(total) | {
        "tags": {name: _figures(row) for name, row in zip(groups, sums, strict=False) if row[2]},
        "phases": {
            str(phase): _figures(row)
            for phase, row in zip(phases, sums[len(groups) :], strict=True)
            if row[2]
        },
    }


def _add(
    sums: Tensor,
    by_id: Tensor,
    part: Batch,
    losses: Tensor,
    right: Tensor,
    corpus: Corpus,
    first: int,
) -> None:
    columns = torch.stack(
        [losses.double(), right.double(), torch.ones_like(losses, dtype=torch.float64)], dim=1
    ).cpu()
    sums.index_add_(0, by_id[part.targets.cpu()], columns)
    if corpus.phases:
        numbers = [int(corpus.phase[n]) for row in part.rows for n in row.tolist()]
        phase = torch.tensor([first + corpus.phases.index(n) for n in numbers])
        sums.index_add_(0, phase[part.owner.cpu()], columns)


def _figures(row: Tensor) -> dict[str, Any]:
    total, right, count = row.tolist()
    return {"loss": total / max(1, count), "accuracy": right / max(1, count), "tokens": int(count)}
