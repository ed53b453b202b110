"""Samples from an allow set, and measures the probability of what was refused.

Input: logits and a state. Output: a token and the refused mass. The mass is reported and never
renormalised in silence, because it shows how well a model keeps the format.

To measure it, all logits are read. Without it, only those of allowed ids are read where these are
listed, as inside of structure: 11 of 151,680, say. Nothing is ever masked: where most ids are
allowed, those that are refused get the weight 0.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mypt_infer.decode.base.allow import AllowSet
from mypt_infer.decode.decoder import Decoder

_BLOCK = 64
_BELOW_ONE = 1 - 2**-53
# With more refused mass than this, the softmax is computed again over the allowed ids alone, so
# that their small probabilities do not vanish.
_NEARLY_ALL = 0.999
# A chance for the next draw is the fraction of the last one times this, plus this.
_AGAIN, _APART = 9301.0, 0.618034
# How many ids are taken to have the rest of the probability, when those of top_p are looked for.
_RESTS = (64, 4096)
_LOW = np.uint64((1 << 32) - 1)
_SLACK = 1 + 1e-9  # for sums of the same numbers in another order


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


class DrawnToken(NamedTuple):
    """A token, and the refused mass.

    The refused mass is the probability that the model, at this temperature, gave to all refused
    ids; NaN if it was not measured. `cut`: without the budget, it would be another token.
    """

    token: int
    refused_mass: float
    cut: bool = False


def draw(
    logits: Tensor,
    state: int,
    decoder: Decoder,
    sampling: Sampling,
    chance: float,
    *,
    measured: bool = True,
) -> DrawnToken:
    """Returns one token of the allow set of `state`, and the refused mass if it is `measured`.

    `logits` are on the CPU, of shape (vocabulary,); `chance` is uniform in [0, 1). Where the budget
    leaves out ids, a token is drawn as if there was none; only one that the budget refuses, or that
    the decoder refuses when it is taken, is drawn again, with a chance made of this one. Raises
    ValueError if the logits that are read are not finite numbers.
    """

    def draw_accepted(
        state: int, chance: float, measured: bool = False, allowed: AllowSet | None = None
    ) -> DrawnToken:
        """Returns one token of the allow set of a state, or of another, that the decoder takes."""
        while True:
            choice = _draw(logits, state, decoder, sampling, chance, measured, allowed)
            if decoder.takes(state, choice.token):
                return choice
            chance = _next_chance(chance)

    if decoder.unbound(state):
        return draw_accepted(state, chance, measured)
    wish = draw_accepted(decoder.endless(state), chance)
    is_cut = decoder.accepts(state, [wish.token]) == 0
    token, mass = wish.token, math.nan
    if is_cut:  # of what is proved, whatever was tried in this state: rows that share it draw alike
        near_ids = decoder.near_ids(state)
        proved = AllowSet(len(near_ids), near_ids, None) if len(near_ids) else None
        token = draw_accepted(state, _next_chance(chance), allowed=proved).token
    if measured:
        mass = _draw(logits, state, decoder, sampling, chance, True, None).refused_mass
    return DrawnToken(token, mass, is_cut)


def _next_chance(chance: float) -> float:
    return (chance * _AGAIN + _APART) % 1.0


def _draw(
    logits: Tensor,
    state: int,
    decoder: Decoder,
    sampling: Sampling,
    chance: float,
    measured: bool,
    allowed: AllowSet | None,
) -> DrawnToken:
    greedy = sampling.temperature == 0 or (sampling.greedy_calls and decoder.calling(state))
    allow_set = decoder.allow(state) if allowed is None else allowed
    short = torch.from_numpy(allow_set.places)
    if not measured and allow_set.only is not None:
        logits_kept = _scaled(logits[short], sampling)
        best = float(logits_kept.max())
        if math.isfinite(best):
            weights = logits_kept if greedy else _best((logits_kept - best).exp_(), sampling)
            at = int(logits_kept.argmax()) if greedy else _chosen(weights, chance)
            return DrawnToken(int(short[at]), math.nan)
    scaled = _scaled(logits, sampling)
    is_likeliest = greedy and allow_set.only is None
    token = _likeliest(scaled, allow_set) if is_likeliest else None
    if token is not None and not measured:
        return DrawnToken(token, math.nan)
    weights = torch.softmax(scaled, 0)
    total = float(weights.sum())  # 1, but for the rounding inside softmax
    if not math.isfinite(total):
        raise ValueError("the model's logits are not finite numbers")
    share = float(weights[short].sum()) / total
    refused_mass = min(1.0, max(0.0, share if allow_set.only is None else 1.0 - share))
    mass = refused_mass if measured else math.nan
    if is_likeliest:
        if token is None:  # the model rules out all, which are equal then
            token = next(filter(allow_set.has, range(len(scaled))))
        return DrawnToken(token, mass)
    if allow_set.only is not None:
        logits_kept = scaled[short]
        weights = _weights(logits_kept)
    else:
        logits_kept = scaled
        weights.index_fill_(0, short, 0.0)
        if refused_mass > _NEARLY_ALL:
            logits_kept = scaled.index_fill(0, short, -torch.inf)
            weights = _weights(logits_kept).index_fill_(0, short, 0.0)
    # Weights too small for a float are all 0, so the logits say which is best, unless the model
    # rules out all, which are equal then.
    at = int(logits_kept.argmax()) if greedy else _chosen(_best(weights, sampling), chance)
    return DrawnToken(at if allow_set.only is None else int(short[at]), mass)


def _scaled(logits: Tensor, sampling: Sampling) -> Tensor:
    """Returns logits as float32, divided by the temperature; at 0 and 1 as they are."""
    scaled = logits.float()
    return scaled if sampling.temperature in (0, 1) else scaled / sampling.temperature


def _likeliest(scaled: Tensor, allow_set: AllowSet) -> int | None:
    """Returns the likeliest allowed id, where refused ids are listed; the first of equal ones.

    None if no logit of an allowed id is a finite number, or one of all is none and not -inf.
    """
    values = scaled.detach().cpu().numpy()  # its argmax takes a 20th of the time of torch's
    at = int(values.argmax())  # NaN, if there is one
    if math.isfinite(values[at]) and not allow_set.has(at):
        values = values.copy()
        values[allow_set.places] = -math.inf
        at = int(values.argmax())
    return at if math.isfinite(values[at]) else None


def draw_free(logits: Tensor, temperature: float, chance: float) -> int:
    """Returns one token of the whole vocabulary; the best one at temperature 0."""
    if temperature == 0:
        return int(logits.argmax())
    return _place(torch.softmax(logits.float() / temperature, dim=-1), chance)[0]


def _weights(scaled: Tensor) -> Tensor:
    """Returns the weights of the allowed ids, not yet summing to 1.

    If the model rules out all of them, they are equal.
    """
    best = scaled.max()
    return (scaled - best).exp_() if bool(best > -torch.inf) else torch.ones_like(scaled)


def _best(weights: Tensor, sampling: Sampling) -> Tensor:
    """Returns the weights, 0 for those that top_k and top_p leave out."""
    if sampling.top_k is not None and sampling.top_k < len(weights):
        least = weights.topk(sampling.top_k).values[-1]
        weights = weights.masked_fill(weights < least, 0.0)
    if sampling.top_p is not None and sampling.top_p < 1:
        at, ordered, total = _ordered(weights, sampling.top_p)
        in_share = np.cumsum(ordered) - ordered < sampling.top_p * total
        places = torch.from_numpy(at[in_share]).to(weights.device)
        weights = torch.zeros_like(weights).index_copy_(0, places, weights[places])
    return weights


def _ordered(
    weights: Tensor, share: float
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64], float]:
    """Returns (ids, weights, total): from the largest weight on, at least to `share` of the total.

    Equal ones are in the order of their ids. To sort few in place of all: if those above some
    weight have the share, no other is wanted.
    """
    values = weights.detach().cpu().numpy()
    total = float(values.sum(dtype=np.float64))
    at = np.arange(len(values))
    for divisor in _RESTS:
        if divisor < len(values):
            above = np.flatnonzero(values > (1 - share) * total / divisor)
            if float(values[above].sum(dtype=np.float64)) >= share * total * _SLACK:
                at = above
                break
    # Sorted as whole numbers, the weight before the place: many times as fast as an `argsort`.
    bits = values[at].view(np.uint32).astype(np.uint64)
    keys = np.sort((_LOW - bits) << np.uint64(32) | np.arange(len(at), dtype=np.uint64))
    at = at[(keys & _LOW).astype(np.intp)]
    return at, values[at].astype(np.float64), total


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
