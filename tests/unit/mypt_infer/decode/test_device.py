"""Logits on a device are masked as arrays are."""

from __future__ import annotations

import pytest

from tests.support.decoding import decoder, in_call, prompt, some_states
from tests.support.examples import either

torch = pytest.importorskip("torch")
from mypt_infer.generate.device import Masks  # noqa: E402

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("budget", [None, 12, 60])
def test_rows_are_masked_as_arrays_are(budget: int | None, dtype: torch.dtype) -> None:
    """Twice each, where budgets bind and where they do not; other types in between."""
    made, masks = decoder("mypt", think=4, call=48), Masks()
    states = [s for seed in range(either(1, 4)) for s in some_states(made, seed, budget)]
    logits = torch.randn(
        len(states), made.tables.vocabulary, generator=torch.Generator().manual_seed(0)
    ).to(dtype)
    logits[:, 50300] = float("nan")
    bias = torch.from_numpy(made.bias(states))
    for again in (dtype, torch.float32, dtype):
        for row, state, wanted in zip(logits.to(again, copy=True), states, bias, strict=True):
            before = row.clone()
            masks.mask(row, made.allow(state))
            assert torch.equal(row.isinf(), wanted.isinf())
            assert torch.equal(row[~row.isinf()], before[~row.isinf()])


def test_rows_that_are_no_block_of_memory() -> None:
    made, masks = decoder("mypt"), Masks()
    text, name = made.next(made.start(prompt("mypt")), 50261), in_call(made, '{"name": "')
    for state in (text, name):
        row = torch.randn(2 * made.tables.vocabulary)[::2]
        expected = row + torch.from_numpy(made.bias([state])[0])
        for _ in range(2):
            masks.mask(row, made.allow(state))
            assert torch.equal(row, expected)
