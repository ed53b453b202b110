"""Measures how fast a run is: tokens a second, and the share of what the GPU can do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mypt_train.training.batches import Batch
from mypt_train.training.parts.distributed import World

# Dense products in bfloat16, in 1e12 floating-point operations a second, by the name of the GPU.
_PEAKS = {"H200": 989, "H100": 989, "A100": 312, "L40S": 362, "L4": 121, "A10": 125, "4090": 165}


@dataclass(frozen=True)
class Speed:
    """`tokens_per_second`, over all processes; `trained`, the share of tokens with a loss.

    `mfu` is the share of the GPU's peak that the model's products took (6 operations a weight and
    token), None where the peak is not known.
    """

    tokens_per_second: float
    trained: float
    mfu: float | None

    @property
    def facts(self) -> dict[str, Any]:
        """Returns the figures, by name."""
        figures = {"tokens_per_second": self.tokens_per_second, "trained": self.trained}
        return figures if self.mfu is None else figures | {"mfu": self.mfu}

    @property
    def text(self) -> str:
        """Returns the figures as people read them."""
        utilization = "" if self.mfu is None else f", {self.mfu:.0%} MFU"
        return f"{self.tokens_per_second:,.0f} tokens/s ({self.trained:.0%} trained){utilization}"


class Meter:
    """Counts tokens between two readings."""

    def __init__(self, world: World, weights: int) -> None:
        self.world, self.weights = world, weights
        self.peak = _peak(world.device) * world.size
        self._begin()

    def _begin(self) -> None:
        self.since, self.tokens, self.targets = time.perf_counter(), 0, 0

    def add(self, batches: Sequence[Batch]) -> None:
        """Counts the batches that this process has read."""
        self.tokens += sum(b.tokens for b in batches)
        self.targets += sum(len(b.targets) for b in batches)

    def read(self) -> Speed:
        """Returns the speed since the last reading; all processes call it."""
        counted = torch.tensor([self.tokens, self.targets], device=self.world.device)
        tokens, targets = self.world.sum(counted).tolist()
        rate = tokens / (time.perf_counter() - self.since)
        mfu = 6 * self.weights * rate / self.peak if self.peak else None
        self._begin()
        return Speed(rate, targets / max(1, tokens), mfu)


def _peak(device: torch.device) -> float:
    """Returns the peak of a device, in operations a second; 0 where it is not known."""
    if device.type != "cuda":
        return 0.0
    name = torch.cuda.get_device_name(device)
    return next((peak * 1e12 for part, peak in _PEAKS.items() if part in name), 0.0)
