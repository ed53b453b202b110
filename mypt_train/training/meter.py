"""Measures how fast a run is: tokens a second, and the share of what the GPU can do."""

import time
from collections.abc import Sequence
from typing import Any

import torch

from mypt_train.training.batches import Batch
from mypt_train.training.parts.distributed import World

# Dense products in bfloat16, in 1e12 floating-point operations a second, by the name of the GPU.
_PEAKS = {"H200": 989, "H100": 989, "A100": 312, "L40S": 362, "L4": 121, "A10": 125, "4090": 165}


class Meter:
    """Counts tokens between two readings."""

    def __init__(self, world: World, weights: int) -> None:
        self.world, self.weights = world, weights
        gpu = torch.cuda.get_device_name(world.device) if world.device.type == "cuda" else ""
        peak = next((peak * 1e12 for name, peak in _PEAKS.items() if name in gpu), 0.0)
        self.peak = peak * world.size  # in operations a second; 0 where it is not known
        self._begin()

    def _begin(self) -> None:
        self.since, self.tokens, self.targets = time.perf_counter(), 0, 0

    def add(self, batches: Sequence[Batch]) -> None:
        """Counts the batches that this process has read."""
        self.tokens += sum(b.tokens for b in batches)
        self.targets += sum(len(b.targets) for b in batches)

    def read(self) -> tuple[dict[str, Any], str]:
        """Returns the speed since the last reading, by name and in words; all processes call it.

        `tokens_per_second` is over all processes, `trained` the share of tokens with a loss. `mfu`
        is the share of the GPU's peak that the model's products took (6 operations a weight and
        token), if the peak is known.
        """
        counted = torch.tensor([self.tokens, self.targets], device=self.world.device)
        tokens, targets = self.world.sum(counted).tolist()
        rate, trained = tokens / (time.perf_counter() - self.since), targets / max(1, tokens)
        self._begin()
        facts = {"tokens_per_second": rate, "trained": trained}
        text = f"{rate:,.0f} tokens/s ({trained:.0%} trained)"
        if self.peak:
            facts["mfu"] = 6 * self.weights * rate / self.peak
            text += f", {facts['mfu']:.0%} MFU"
        return facts, text
