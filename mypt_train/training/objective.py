"""Computes the loss of a step, and its gradients, one micro-batch at a time.

Input: a model and batches. Output: the loss. The summed loss of each micro-batch is divided by the
count of the whole step, over all processes. Dividing each micro-batch by its own count would weigh
a token by how many others happen to share its micro-batch. `validate` measures how well a model
predicts the validation split.

The losses on preferences (`dpo`, `orpo`, `kto`) take the log-likelihoods of whole answers, summed
over their trained tokens: float32, (n,). Of a pair, the chosen answer comes directly before the
rejected one. They return a summed loss, which is divided by the pairs or answers of the step.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mypt_train.data.formats.manifest import GOOD
from mypt_train.training.batches import Batch, batch, share
from mypt_train.training.corpus import Corpus, Row
from mypt_train.training.parts.attention import attend, uncompiled
from mypt_train.training.parts.config import TrainConfig
from mypt_train.training.parts.distributed import World, last_of, precision, reshard
from mypt_train.training.parts.head import chunked_cross_entropy, chunked_cross_entropy_each

Then = Callable[[Tensor, Tensor], Any]


class Objective:
    """The loss of a config, over all processes.

    `reference` is the frozen model for DPO and KTO.
    """

    def __init__(
        self, config: TrainConfig, corpus: Corpus, world: World, reference: nn.Module | None = None
    ) -> None:
        self.config, self.corpus, self.world, self.reference = config, corpus, world, reference
        self.dtype = precision(config.dtype, world.device)
        self.backend = config.attention
        if self.backend == "auto":
            self.backend = "flex" if world.device.type == "cuda" else "slices"
        self.pairs = config.objective in ("dpo", "orpo")

    def count(self, batches: Sequence[Batch]) -> float:
        """Returns the divisor of a step's loss, over all processes.

        It is the number of trained tokens, or the sum of their weights; of pairs, or of answers.
        """
        sums = [
            (len(b.targets) if b.weights is None else float(b.weights.double().sum()))
            if self.config.objective == "sft"
            else sum(map(len, b.rows)) // (2 if self.pairs else 1)
            for b in batches
        ]
        kind = torch.float64 if self.corpus.weighed else torch.int64
        return self.world.sum(torch.tensor(sum(sums), dtype=kind, device=self.world.device)).item()

    def step(self, model: nn.Module, batches: Sequence[Batch], count: float) -> Tensor:
        """Adds the gradients of a step to the model's; returns the loss, float32, ().

        The loss is the same on all processes.
        """
        total = torch.zeros((), device=self.world.device)
        drift = self._drift(model, batches) if self.config.objective == "kto" else total
        for i, micro in enumerate(batches):
            with last_of(model, last=i == len(batches) - 1):
                loss = self._loss(model, micro, drift) / count
                # Gradients are averaged over the processes, each of which has only its part of the
                # sum.
                (loss * self.world.size).backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        return self.world.sum(total)

    @torch.no_grad()
    def mean(self, model: nn.Module, batches: Sequence[Batch]) -> float:
        """Returns the loss of a step without changing anything."""
        drift = torch.zeros((), device=self.world.device)
        if self.config.objective == "kto":
            drift = self._drift(model, batches)
        total = torch.stack([self._loss(model, batch, drift) for batch in batches]).sum()
        reshard(model)
        return float(self.world.sum(total)) / self.count(batches)

    def run(self, model: nn.Module, batch: Batch, then: Then) -> Any:
        """Runs the model on a batch; returns `then(hidden, head)`.

        `hidden` are the hidden states before the targets."""
        width = batch.ids.shape[1]
        attention = attend(self.backend, batch.lengths, width, self.world.device)
        if self.config.compile:
            attention = uncompiled(attention, self.backend)
        mixed = self.dtype != torch.float32 and not hasattr(model, "unshard")
        with torch.autocast(self.world.device.type, dtype=self.dtype, enabled=mixed):
            return model(batch.ids, batch.at, attention, batch.places, then)

    def token_losses(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Returns what `chunked_cross_entropy` returns, for the targets of a batch."""
        losses: tuple[Tensor, Tensor, Tensor] = self.run(
            model, batch, lambda h, w: chunked_cross_entropy(h, w, batch.targets, batch.weights)
        )
        return losses

    def _loss(self, model: nn.Module, batch: Batch, drift: Tensor) -> Tensor:
        if self.config.objective == "sft":
            return self.token_losses(model, batch)[0]
        policy, beta = self._answers(model, batch), self.config.beta
        if self.config.objective == "orpo":
            return orpo(policy, torch.bincount(batch.owner, minlength=len(policy)), beta=beta)
        reference = self._reference(batch)
        if self.config.objective == "dpo":
            return dpo(policy, reference, beta=beta)
        kinds = torch.tensor(
            [int(self.corpus.episodes["kind"][n]) for row in batch.rows for n in row.tolist()],
            device=policy.device,
        )
        return kto(policy, reference, kinds == GOOD, drift, beta=beta)

    def _answers(self, model: nn.Module, batch: Batch) -> Tensor:
        """Returns the log-likelihood of each answer, (answers,)."""
        losses: Tensor = self.run(
            model, batch, lambda h, w: chunked_cross_entropy_each(h, w, batch.targets)
        )
        return -losses.new_zeros(sum(map(len, batch.rows))).index_add(0, batch.owner, losses)

    def _reference(self, batch: Batch) -> Tensor:
        assert self.reference is not None
        with torch.no_grad():
            answers = self._answers(self.reference, batch)
        reshard(self.reference)
        return answers

    def _drift(self, model: nn.Module, batches: Sequence[Batch]) -> Tensor:
        """Returns how much likelier the model finds the step's answers than the reference does.

        This is the mean over all answers, at least 0.
        """
        with torch.no_grad():
            gains = [(self._answers(model, b) - self._reference(b)).sum() for b in batches]
        return (self.world.sum(torch.stack(gains).sum()) / self.count(batches)).clamp(min=0)


def dpo(policy: Tensor, reference: Tensor, *, beta: float) -> Tensor:
    """Returns the loss of direct preference optimisation (arXiv:2305.18290).

    It compares how much the policy and the reference prefer the chosen answers.
    """
    gain = (policy - reference).view(-1, 2)
    return -F.logsigmoid(beta * (gain[:, 0] - gain[:, 1])).sum()


def orpo(policy: Tensor, lengths: Tensor, *, beta: float) -> Tensor:
    """Returns the loss of odds-ratio preference optimisation (arXiv:2403.07691).

    It is the chosen answer's mean loss, and the odds of both answers; there is no reference.
    `lengths` are the trained tokens of each answer, (n,).
    """
    mean = (policy / lengths).view(-1, 2)
    odds = mean - torch.log(-torch.expm1(mean.clamp(max=-1e-6)))
    return (-mean[:, 0] - beta * F.logsigmoid(odds[:, 0] - odds[:, 1])).sum()


def kto(policy: Tensor, reference: Tensor, good: Tensor, drift: Tensor, *, beta: float) -> Tensor:
    """Returns the loss of Kahneman-Tversky optimisation (arXiv:2402.01306).

    Both labels weigh the same. `good`: bool, (n,). `drift`: how far the policy is from the
    reference, (), without gradient and not below 0; it is estimated from the answers of the step,
    not from answers to other questions.
    """
    gain = beta * (policy - reference - drift)
    return (1 - torch.sigmoid(torch.where(good, gain, -gain))).sum()


@torch.no_grad()
def validate(
    objective: Objective, model: nn.Module, corpus: Corpus, rows: Sequence[Row]
) -> dict[str, Any]:
    """Returns `loss`; of the objective "sft" the mean over trained tokens, `accuracy` and `tokens`.

    The same is then in `tags` and `phases`, by tag and phase of the curriculum. The figures are
    over all processes. A tag of one id is counted by its spelling, everything else as "text". If
    there are more processes than rows, some repeat a row that counts for nothing, so that all
    processes take part in each forward pass.
    """
    world, micro = objective.world, objective.config.micro_rows
    if objective.config.objective != "sft":
        parts = share(rows, 0, 1, micro)  # every process looks at all of them
        alone = World(0, 1, world.device)
        here = Objective(objective.config, corpus, alone, objective.reference)
        return {"loss": here.mean(model, [batch(corpus, part).to(world.device) for part in parts])}
    names = {i: tag for tag, i in corpus.dialect.tokenizer.special.items()}
    groups, phases = ["text", *names.values()], corpus.phases
    by_id = torch.zeros(corpus.dialect.tokenizer.vocab_size, dtype=torch.int64)
    for number, name in names.items():
        by_id[number] = groups.index(name)
    sums = torch.zeros(len(groups) + len(phases), 3, dtype=torch.float64)
    for begin in range(0, len(rows), micro * world.size):
        mine = rows[begin : begin + micro * world.size][world.rank :: world.size]
        part = batch(corpus, mine or rows[:1]).to(world.device)
        _, losses, right = objective.token_losses(model, part)
        if not mine:
            continue
        ones = torch.ones_like(losses, dtype=torch.float64)
        columns = torch.stack([losses.double(), right.double(), ones], dim=1).cpu()
        sums.index_add_(0, by_id[part.targets.cpu()], columns)
        if phases:
            numbers = [int(corpus.phase[n]) for row in part.rows for n in row.tolist()]
            phase = torch.tensor([len(groups) + phases.index(n) for n in numbers])
            sums.index_add_(0, phase[part.owner.cpu()], columns)
    reshard(model)
    sums = world.sum(sums.to(world.device)).cpu()

    def figures(row: Tensor) -> dict[str, Any]:
        total, right, count = row.tolist()
        counted = max(1, count)
        return {"loss": total / counted, "accuracy": right / counted, "tokens": int(count)}

    def by_name(names: Sequence[object], rows: Tensor) -> dict[str, Any]:
        named = zip(names, rows, strict=True)
        return {str(name): figures(row) for name, row in named if row[2]}

    by_tag, by_phase = sums[: len(groups)], sums[len(groups) :]
    out = {"tags": by_name(groups, by_tag), "phases": by_name(phases, by_phase)}
    return figures(by_tag.sum(dim=0)) | out
