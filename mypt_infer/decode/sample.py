"""Drawing from an allow set. What the model would have put elsewhere is measured, never renormalised in silence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from mypt_infer.decode.device import DeviceDecoder


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How tokens are drawn. Temperature 0 takes the best; `top_k` and `top_p` choose among what is allowed.

    `greedy_calls`: the best inside tool calls, whatever the temperature.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    greedy_calls: bool = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature must be 0 or more, got {self.temperature!r}")
        if self.top_k is not None and (isinstance(self.top_k, bool) or self.top_k < 1):
            raise ValueError(f"top_k must be 1 or more, got {self.top_k!r}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, got {self.top_p!r}")


class Drawn(NamedTuple):
    """A token, and the probability that the model, at this temperature, gave to all that was refused ("format lock")."""

    token: int
    lost: float


def draw(logits: Tensor, state: int, device: DeviceDecoder, sampling: Sampling, chance: float) -> Drawn:
    """One token of the allow set of `state`; `logits` has shape (vocabulary,), `chance` is drawn evenly from [0, 1).

    Raises ValueError when the logits are not numbers: nothing can be drawn from these.
    """
    greedy = sampling.temperature == 0 or (sampling.greedy_calls and device.decoder.calling(state))
    scaled = logits.double() if sampling.temperature in (0, 1) else logits.double() / sampling.temperature
    total = torch.logsumexp(scaled, 0)
    if not bool(torch.isfinite(total)):
        raise ValueError("the model's logits are not finite numbers")
    found = device.decoder.allow(state)
    if found.only is not None:
        ids = device.list_of(found.only)
        kept = scaled[ids]
        lost = 1.0 - float((kept - total).exp().sum())
    else:
        ids = None
        refused = device.list_of(found.refused)
        lost = float((scaled[refused] - total).exp().sum())
        kept = scaled.index_fill(0, refused, -torch.inf)
    at = int(kept.argmax()) if greedy else _chosen(kept, sampling, chance)
    return Drawn(at if ids is None else int(ids[at]), min(1.0, max(0.0, lost)))


def _chosen(kept: Tensor, sampling: Sampling, chance: float) -> int:
    """A position, drawn by its share of what is left by top_k and top_p."""
    best = kept.max()
    if sampling.top_k is not None and sampling.top_k < len(kept):
        least = kept.topk(sampling.top_k).values[-1]
        kept = torch.where(kept >= least, kept, -torch.inf)
    weights = (kept - best).exp() if torch.isfinite(best) else torch.isfinite(kept).double()
    if sampling.top_p is not None and sampling.top_p < 1:
        ordered, order = weights.sort(descending=True)
        before = ordered.cumsum(0) - ordered
        weights = torch.zeros_like(weights).index_copy(0, order, torch.where(before < sampling.top_p * weights.sum(), ordered, 0.0))
    sums = weights.cumsum(0)
    at = int(torch.searchsorted(sums, sums[-1] * chance, right=True))
    return at if at < len(sums) else int(weights.nonzero()[-1])
