"""Samples from an allow set, and measures the probability of what was refused.

Input: logits and a state. Output: a token and the refused mass. The mass is reported and never
renormalised in silence, because it shows how well a model keeps the format.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from mypt_infer.generate.device import DeviceDecoder

_BLOCK = 64
_BELOW_ONE = 1 - 2**-53
# With more refused mass than this, the softmax is computed again over the allowed ids alone, so
# that their small probabilities do not vanish.
_NEARLY_ALL = 0.999
# A chance for the next draw is the fraction of the last one times this, plus this.
_AGAIN, _APART = 9301.0, 0.618034


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How tokens are sampled.

    Temperature 0 takes the best token. `top_k` and `top_p` choose among the allowed ids.
    `greedy_calls` takes the best token inside tool calls, whatever the temperature. Raises
    ValueError for values out of range.
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
    """A token, and the refused mass.

    The refused mass is the probability that the model, at this temperature, gave to all refused
    ids.
    """

    token: int
    refused_mass: float


def draw(
    logits: Tensor, state: int, tensors: DeviceDecoder, sampling: Sampling, chance: float
) -> Drawn:
    """Returns one token of the allow set of `state`, and the refused mass.

    `logits` has shape (vocabulary,); `chance` is uniform in [0, 1). A token that the decoder
    refuses when it is taken is drawn again, with a chance made of this one. Raises ValueError if
    the logits are not finite numbers.
    """
    while True:
        drawn = _draw(logits, state, tensors, sampling, chance)
        if tensors.decoder.takes(state, drawn.token):
            return drawn
        chance = (chance * _AGAIN + _APART) % 1.0


def _draw(
    logits: Tensor, state: int, tensors: DeviceDecoder, sampling: Sampling, chance: float
) -> Drawn:
    greedy = sampling.temperature == 0 or (sampling.greedy_calls and tensors.decoder.calling(state))
    scaled = (
        logits.float() if sampling.temperature in (0, 1) else logits.float() / sampling.temperature
    )
    weights = torch.softmax(scaled, 0)
    found = tensors.decoder.allow(state)
    short = tensors.list_of(found)
    total = float(weights.sum())  # 1, but for the rounding inside softmax
    if not math.isfinite(total):
        raise ValueError("the model's logits are not finite numbers")
    listed = float(weights[short].sum()) / total
    refused_mass = min(1.0, max(0.0, listed if found.only is None else 1.0 - listed))
    if found.only is not None:
        kept = scaled[short]
        weights = _weights(kept)
    else:
        kept = scaled
        weights.index_fill_(0, short, 0.0)
        if refused_mass > _NEARLY_ALL or greedy:
            kept = scaled.index_fill(0, short, -torch.inf)
            weights = _weights(kept).index_fill_(0, short, 0.0)
    if not greedy:
        at = _chosen(_best(weights, sampling), chance)
    else:
        # Weights too small for a float are all 0, so the logits say which is best, unless the model
        # rules out all.
        at = int((kept if bool(kept.max() > -torch.inf) else weights).argmax())
    return Drawn(at if found.only is None else int(short[at]), refused_mass)


def draw_free(logits: Tensor, temperature: float, chance: float) -> int:
    """Returns one token of the whole vocabulary; the best one at temperature 0."""
    if temperature == 0:
        return int(logits.argmax())
    return _place(torch.softmax(logits.float() / temperature, dim=-1), chance)[0]


def _weights(kept: Tensor) -> Tensor:
    """Returns the weights of the allowed ids, not yet summing to 1.

    If the model rules out all of them, they are equal.
    """
    best = kept.max()
    return (kept - best).exp_() if bool(best > -torch.inf) else torch.ones_like(kept)


def _best(weights: Tensor, sampling: Sampling) -> Tensor:
    """Returns the weights, 0 for those that top_k and top_p leave out."""
    if sampling.top_k is not None and sampling.top_k < len(weights):
        weights = torch.where(weights >= weights.topk(sampling.top_k).values[-1], weights, 0.0)
    if sampling.top_p is not None and sampling.top_p < 1:
        ordered, order = weights.double().sort(descending=True)
        before = ordered.cumsum(0) - ordered
        weights = torch.zeros_like(weights).index_copy(
            0, order, torch.where(before < sampling.top_p * ordered.sum(), ordered, 0.0).float()
        )
    return weights


def _chosen(weights: Tensor, chance: float) -> int:
    """Returns an index, sampled by its weight.

    A block is sampled first, then an index inside: sums stay exact, and most are never computed.
    """
    if len(weights) % _BLOCK == 0:
        block, chance = _place(weights.view(-1, _BLOCK).sum(1), chance)
        return block * _BLOCK + _place(weights[block * _BLOCK : (block + 1) * _BLOCK], chance)[0]
    return _place(weights, chance)[0]


def _place(weights: Tensor, chance: float) -> tuple[int, float]:
    """Returns (index, rest): where the sum reaches `chance` of the total, and how far inside."""
    sums = weights.double().cumsum(0)
    goal = float(sums[-1]) * chance
    at = int(torch.searchsorted(sums, goal, right=True))
    if at >= len(sums):
        at = int(weights.nonzero()[-1])
    weight = float(weights[at])
    return at, min(max(0.0, goal - (float(sums[at]) - weight)) / weight, _BELOW_ONE)
