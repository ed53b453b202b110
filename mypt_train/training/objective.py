"""Computes the loss of a step, and its gradients, one micro-batch at a time.

Input: a model and batches. Output: the loss. The summed loss of each micro-batch is divided by the
count of the whole step, over all processes. Dividing each micro-batch by its own count would weigh
a token by how many others happen to share its micro-batch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mypt_train.data.shard import GOOD
from mypt_train.training.batches import Batch
from mypt_train.training.corpus import Corpus
from mypt_train.training.parts import preference
from mypt_train.training.parts.attention import attend
from mypt_train.training.parts.compiled import uncompiled
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
        self.backend = (
            config.attention
            if config.attention != "auto"
            else "flex"
            if world.device.type == "cuda"
            else "slices"
        )
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
        for i, batch in enumerate(batches):
            with last_of(model, last=i == len(batches) - 1):
                loss = self._loss(model, batch, drift) / count
                # Gradients are averaged over the processes, each of which has only its part of the
                # sum.
                (loss * self.world.size).backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        return self.world.sum(total)

    @torch.no_grad()
    def mean(self, model: nn.Module, batches: Sequence[Batch]) -> float:
        """Returns the loss of a step without changing anything."""
        drift = (
            self._drift(model, batches)
            if self.config.objective == "kto"
            else torch.zeros((), device=self.world.device)
        )
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
        with (
            torch.autocast(self.world.device.type, dtype=self.dtype)
            if mixed
            else contextlib.nullcontext()
        ):
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
            return preference.orpo(
                policy, torch.bincount(batch.owner, minlength=len(policy)), beta=beta
            )
        reference = self._reference(batch)
        if self.config.objective == "dpo":
            return preference.dpo(policy, reference, beta=beta)
        kinds = torch.tensor(
            [int(self.corpus.episodes["kind"][n]) for row in batch.rows for n in row.tolist()],
            device=policy.device,
        )
        return preference.kto(policy, reference, kinds == GOOD, drift, beta=beta)

    def _answers(self, model: nn.Module, batch: Batch) -> Tensor:
        losses = self.run(
            model, batch, lambda h, w: chunked_cross_entropy_each(h, w, batch.targets)
        )
        return preference.by_answer(losses, batch.owner, sum(map(len, batch.rows)))

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
