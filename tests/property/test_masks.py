"""All ways to mask logits say the same to the bit: that of the plain reading, `Decoder.allowed`.

It looks up the state after each id and its distances, and remembers nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mypt_infer.decode import AllowSet, BatchDecoder
from tests.support.decoding import DIALECTS, decoder, prompt, some_states
from tests.support.examples import either, examples

pytestmark = pytest.mark.numeric

BUDGETS = st.sampled_from([None, 12, 40])


@pytest.mark.parametrize("engine", ["table", "llguidance"])
@settings(max_examples=examples(16) * 2, deadline=None)
@given(
    name=st.sampled_from(DIALECTS),
    seed=st.integers(0, 1 << 16),
    budget=BUDGETS,
    wide=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float16]),
)
def test_masks_are_the_plain_reading(
    engine: str, name: str, seed: int, budget: int | None, wide: bool, dtype: Any
) -> None:
    """In place, from other rows, as a bias, as bits, and in a batch of several decoders."""
    if engine == "llguidance":
        pytest.importorskip("llguidance", reason="the engine is not installed")
        name = "mypt"
    made = decoder(name, think=5, call=64, engine=engine)
    rows = some_states(made, seed, budget)
    allowed = np.stack([made.allowed(state) for state in rows])
    assert [made.ids(state).tolist() for state in rows] == [np.flatnonzero(row).tolist() for row in allowed]  # fmt: skip
    assert [made.allow(state).count for state in rows] == allowed.sum(axis=1).tolist()
    size = made.tables.vocabulary
    logits = np.random.default_rng(seed).normal(size=(len(rows), size)).astype(dtype)
    logits[:, seed % size] = np.nan
    expected = np.where(allowed, logits, -np.inf)

    place = np.repeat(logits, 2, axis=1)[:, ::2] if wide else logits.copy()
    made.apply(place, rows)
    assert np.array_equal(place, expected, equal_nan=True)

    assert np.array_equal(made.bias(rows) == 0, allowed)
    bits = np.unpackbits(made.bitmask(rows).view(np.uint8), axis=1, bitorder="little")
    assert np.array_equal(bits[:, :size], allowed)
    assert not bits[:, size:].any()
    batch = BatchDecoder([made, decoder(name)] * len(rows))
    start = decoder(name).start(prompt(name))
    pairs = [state for row in rows for state in (row, start)]
    assert np.array_equal(batch.bitmask(pairs)[::2], made.bitmask(rows))


@settings(max_examples=either(12, 60), deadline=None)
@given(name=st.sampled_from(DIALECTS), seed=st.integers(0, 1 << 16), budget=BUDGETS)
def test_tensors_are_masked_as_arrays_are(name: str, seed: int, budget: int | None) -> None:
    torch = pytest.importorskip("torch")
    from mypt_infer.generate.device import Masks

    made = decoder(name, think=4, call=48)
    masks, rows = Masks(), some_states(made, seed, budget)
    rows = [state for state in rows if not made.final(state)]
    bias = made.bias(rows)
    logits = torch.randn(bias.shape, generator=torch.Generator().manual_seed(seed))
    masked = logits.clone()
    for row, allow_set in zip(masked, made.allow_each(rows), strict=True):
        masks.mask(row, allow_set)
    assert (masked.numpy() == logits.numpy() + bias).all()


@settings(max_examples=examples(40), deadline=None)
@given(allowed=st.lists(st.booleans(), min_size=1, max_size=70))
def test_bits_of_a_vocabulary_of_any_size(allowed: list[bool]) -> None:
    ids = np.arange(len(allowed), dtype=np.int32)
    only = ids[allowed]
    refused = np.delete(ids, only)
    for found in (AllowSet(len(only), only, None), AllowSet(len(only), None, refused)):
        row = np.zeros(-(-len(allowed) // 32) * 4, np.uint8)
        found.write_bits(row, len(allowed))
        assert np.flatnonzero(np.unpackbits(row, bitorder="little")).tolist() == only.tolist()


@settings(max_examples=examples(40), deadline=None)
@given(allowed=st.lists(st.booleans(), min_size=1, max_size=70))
def test_logits_of_refused_ids_are_written(allowed: list[bool]) -> None:
    ids = np.arange(len(allowed), dtype=np.int32)
    only, logits = ids[allowed], np.arange(len(allowed), dtype=np.float32)
    for found in (AllowSet(len(only), only, None), AllowSet(len(only), None, np.delete(ids, only))):
        row = logits.copy()
        found.write(row)
        assert np.array_equal(row, np.where(allowed, logits, -np.inf))
