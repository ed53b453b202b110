"""The decoder on tensors says what the decoder says, in one graph."""

from __future__ import annotations

import random
from itertools import islice

import numpy as np
import pytest

from tests.decoding import DIALECTS, decoder, generated, prompt

torch = pytest.importorskip("torch")
from mypt_infer.decode.device import DeviceDecoder  # noqa: E402


def states_of(name: str, budget: int | None) -> list[tuple[int, int]]:
    """States of a generation with budgets, each with the token that was drawn there."""
    made = decoder(name, think=4, call=48)
    state, out = made.start(prompt(name), max_new_tokens=budget), []
    for token in islice(generated(made, state, random.Random(f"{name} {budget}")), 80):
        out.append((state, token))
        state = made.next(state, token)
    return out


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("budget", [None, 12, 60])
def test_they_agree(name: str, budget: int | None) -> None:
    made = decoder(name, think=4, call=48)
    device = DeviceDecoder(made)
    walk = states_of(name, budget)
    states = torch.tensor([s for s, _ in walk])
    ids = torch.tensor([t for _, t in walk])
    assert device.step(states, ids).tolist() == made.step(states.tolist(), ids.tolist()).tolist()
    bias = made.bias(states.tolist())
    assert (device.bias(states).numpy() == bias).all()
    logits = torch.from_numpy(np.random.default_rng(0).normal(size=bias.shape).astype(np.float32))
    assert (device.mask_(logits.clone(), states.tolist()).numpy() == (logits.numpy() + bias)).all()
    refused = torch.from_numpy(np.isinf(bias).argmax(axis=1))
    assert not device.step(states, refused).any()
    assert torch.isinf(device.bias(device.step(states, refused))).all(), "nothing follows what is dead"


def test_a_batch_steps_in_one_graph() -> None:
    made = decoder("mypt", think=4, call=48)
    device = DeviceDecoder(made)

    def one(logits: torch.Tensor, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ids = (logits + device.bias(states)).argmax(dim=-1)
        return ids, device.step(states, ids)

    compiled = torch.compile(one, fullgraph=True, backend="eager")
    states = torch.tensor([made.start(prompt("mypt"), max_new_tokens=n) for n in (5, 9, 30)])
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        logits = torch.randn(3, made.tables.vocabulary, generator=generator)
        ids, after = compiled(logits, states)
        assert after.tolist() == [made.next(s, i) if s and made.allow(s).count else 0 for s, i in zip(states.tolist(), ids.tolist(), strict=True)]
        states = after
