"""Logits on a device are masked as arrays are."""

from __future__ import annotations

import pytest

from tests.support.decoding import decoder, in_call, prompt, some_states
from tests.support.examples import either

torch = pytest.importorskip("torch")
from mypt_infer.generate.device import DeviceDecoder  # noqa: E402

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("budget", [None, 12, 60])
def test_one_row_is_masked_as_many_are(budget: int | None, dtype: torch.dtype) -> None:
    """Row by row, twice each, where budgets bind and where they do not; other types in between."""
    made = decoder("mypt", think=4, call=48)
    device = DeviceDecoder(made)
    states = [s for seed in range(either(1, 4)) for s in some_states(made, seed, budget)]
    logits = torch.randn(
        len(states), made.tables.vocabulary, generator=torch.Generator().manual_seed(0)
    ).to(dtype)
    logits[:, 50300] = float("nan")
    expected = device.apply_(logits.clone(), states)
    bias = torch.from_numpy(made.bias(states))
    assert torch.equal(expected.isinf(), bias.isinf())
    assert torch.equal(expected[~expected.isinf()], logits[~expected.isinf()])
    for again in (dtype, torch.float32, dtype):
        for i, state in enumerate(states):
            row = logits[i : i + 1].to(again, copy=True)
            assert device.apply_(row, [state]) is row
            assert torch.equal(row, expected[i : i + 1].to(again))
    with pytest.raises(ValueError, match="2 rows of logits, 1 states"):
        device.apply_(logits[:2].clone(), states[:1])
    with pytest.raises(ValueError, match="1 rows of logits, 2 states"):
        device.apply_(logits[:1].clone(), states[:2])


def test_rows_that_are_no_block_of_memory() -> None:
    made = decoder("mypt")
    device = DeviceDecoder(made)
    text, name = made.next(made.start(prompt("mypt")), 50261), in_call(made, '{"name": "')
    wide = torch.randn(3, 2 * made.tables.vocabulary)
    one, three = slice(1, 2), slice(0, 3)
    for rows, state in ((one, text), (one, name), (three, text), (three, name)):
        part = wide.clone()[rows, ::2]
        expected = part + torch.from_numpy(made.bias([state] * len(part)))
        for _ in range(2):
            assert torch.equal(device.apply_(part, [state] * len(part)), expected)
