"""A draw that reads only what it has to takes the token that the plain reading takes."""

from __future__ import annotations

import math
import random
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.decoding import decoder, some_states
from tests.support.examples import examples
from tests.support.tolerance import assert_close

torch = pytest.importorskip("torch")
from mypt_infer.generate.sample import DrawnToken, Sampling, draw  # noqa: E402

pytestmark = pytest.mark.numeric

BLOCK = 64
SUMMED = math.log2(50304)  # a sum of as many weights is a tree of pairs


@cache
def pool() -> list[int]:
    """States in text, in structure and at tight budgets, each with something allowed."""
    made = decoder("mypt")
    found = [
        state
        for seed, budget in ((1, None), (2, 40), (3, 60), (4, 60))
        for state in some_states(made, seed, budget)
    ]
    return [state for state in found if made.allow(state).count > 1]


def place(weights: Any, chance: float) -> tuple[int, float]:
    sums = weights.double().cumsum(0)
    goal = float(sums[-1]) * chance
    at = int(torch.searchsorted(sums, goal, right=True))
    at = int(weights.nonzero()[-1]) if at >= len(sums) else at
    weight = float(weights[at])
    return at, min(max(0.0, goal - (float(sums[at]) - weight)) / weight, 1 - 2**-53)


def plain(logits: Any, state: int, sampling: Sampling, chance: float) -> DrawnToken:
    """The definition: softmax of all ids, all of them sorted, refused ids at 0."""
    made = decoder("mypt")
    allowed = torch.from_numpy(made.allowed(state))
    scaled = logits.float() if sampling.temperature in (0, 1) else logits / sampling.temperature
    every = torch.softmax(scaled, 0)
    if not math.isfinite(float(every.sum())):
        raise ValueError("the model's logits are not finite numbers")
    mass = float(every[~allowed].double().sum() / every.double().sum())
    ids = allowed.nonzero().flatten()
    kept = scaled[ids]
    best = kept.max()
    weights = (kept - best).exp_() if best > -math.inf else torch.ones_like(kept)
    if sampling.temperature == 0 or (sampling.greedy_calls and made.calling(state)):
        return DrawnToken(int(ids[(kept if best > -math.inf else weights).argmax()]), mass)
    if made.allow(state).only is None:
        if mass <= 0.999:
            weights = every[ids]
        weights = torch.zeros(len(logits)).index_copy(0, ids, weights)
        ids = torch.arange(len(logits))
    if sampling.top_k is not None and sampling.top_k < len(weights):
        weights = torch.where(weights >= weights.topk(sampling.top_k).values[-1], weights, 0.0)
    if sampling.top_p is not None and sampling.top_p < 1:
        ordered, order = weights.double().sort(descending=True, stable=True)
        inside = ordered.cumsum(0) - ordered < sampling.top_p * ordered.sum()
        weights = torch.zeros_like(weights).index_copy(
            0, order, torch.where(inside, ordered, 0.0).float()
        )
    if len(weights) % BLOCK == 0:
        block, chance = place(weights.view(-1, BLOCK).sum(1), chance)
        at = block * BLOCK + place(weights[block * BLOCK : (block + 1) * BLOCK], chance)[0]
    else:
        at = place(weights, chance)[0]
    return DrawnToken(int(ids[at]), mass)


@settings(max_examples=examples(40), deadline=None)
@given(
    seed=st.integers(0, 1 << 16),
    temperature=st.sampled_from([0.0, 0.7, 1.0, 3.0]),
    top_k=st.sampled_from([None, 1, 5, 200, 900]),
    top_p=st.sampled_from([None, 0.01, 0.5, 0.95, 0.99999]),
    greedy_calls=st.booleans(),
    shape=st.sampled_from(["peaked", "normal", "flat", "equal", "coarse", "low", "nothing"]),
    chance=st.floats(0, 1, exclude_max=True),
)
@example(1, 1.0, None, 0.5, False, "equal", 0.3)
@example(1, 0.7, None, 0.95, False, "coarse", 0.9)
@example(2, 0.0, None, None, True, "low", 0.5)
@example(3, 1.0, None, None, False, "low", 0.99999)
@example(3, 3.0, None, None, False, "nothing", 0.4)
@example(4, 0.0, None, None, True, "nothing", 0.0)
@example(1, 0.0, None, None, False, "nothing", 0.0)  # in structure: the first of the allowed ids
def test_draws_are_the_plain_reading(
    seed: int,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    greedy_calls: bool,
    shape: str,
    chance: float,
) -> None:
    """In text and in structure, with and without the refused mass, for all kinds of logits."""
    made = decoder("mypt")
    sampling = Sampling(
        temperature=temperature, top_k=top_k, top_p=top_p, greedy_calls=greedy_calls
    )
    generator = torch.Generator().manual_seed(seed)
    for state in random.Random(seed).sample(pool(), 2):
        width = {"peaked": 8.0, "flat": 0.01, "equal": 0.0}.get(shape, 2.0)
        logits = torch.randn(made.tables.vocabulary, generator=generator) * width
        allowed = torch.from_numpy(made.allowed(state))
        if shape == "coarse":  # as of 16 bits: many are equal
            logits = logits.round()
        elif shape == "low":
            logits[~allowed] += 60
        elif shape == "nothing":
            logits[allowed] = -math.inf
        expected = plain(logits, state, sampling, chance)
        found = draw(logits, state, made, sampling, chance)
        assert found.token == expected.token
        assert_close(
            found.refused_mass, expected.refused_mass, terms=SUMMED, scale=1, dtype=np.float32
        )
        quick = draw(logits, state, made, sampling, chance, measured=False)
        assert quick.token == expected.token
        assert math.isnan(quick.refused_mass)


def test_only_what_is_allowed_is_read_in_structure() -> None:
    """Without the refused mass: other logits may be anything, those of allowed ids may not."""
    made = decoder("mypt")
    found = next(state for state in pool() if made.allow(state).only is not None)
    ids = torch.from_numpy(made.allow(found).places)
    logits = torch.full((made.tables.vocabulary,), math.nan)
    logits[ids] = torch.arange(len(ids)).float()
    for sampling in (Sampling(temperature=0), Sampling(greedy_calls=False)):
        assert draw(logits, found, made, sampling, 0.99, measured=False).token == int(ids[-1])
        for wrong in (math.nan, math.inf):
            logits[ids[0]] = wrong
            with pytest.raises(ValueError, match="not finite"):
                draw(logits, found, made, sampling, 0.5, measured=False)
        logits[ids[0]] = 0.0
        with pytest.raises(ValueError, match="not finite"):
            draw(logits, found, made, sampling, 0.5)
