"""Rows of logits that are kept are the plain reading at each step, whatever came before."""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.decoding import decoder, in_call, prompt, some_states
from tests.support.examples import examples

torch = pytest.importorskip("torch")
from mypt_infer.generate import kept_rows  # noqa: E402
from mypt_infer.generate.device import DeviceDecoder  # noqa: E402
from mypt_infer.generate.kept_rows import KeptRows  # noqa: E402

pytestmark = pytest.mark.numeric

ALWAYS = patch.object(kept_rows, "_LEAST", 0)  # also for rows that lie in a cache


# Beginnings of a call after which few ids are allowed.
BEGUN = ("", '{"name": "', '{"name": "sea', '{"name": "search", "que', '{"name": "search", "query": "a')  # fmt: skip


def in_a_call(at: int) -> int:
    return in_call(decoder("mypt"), BEGUN[at], budget=90)


def plain(rows: list[int], logits: torch.Tensor) -> torch.Tensor:
    """Masked logits, by the plain reading; 7 in the place of NaN."""
    allowed = torch.stack([torch.from_numpy(decoder("mypt").allowed(state)) for state in rows])
    return torch.where(allowed, logits, -torch.inf).nan_to_num(7)


@ALWAYS
@settings(max_examples=examples(12), deadline=None)
@given(
    seed=st.integers(0, 1 << 16),
    steps=st.lists(
        st.tuples(
            st.integers(1, 6),
            st.sampled_from(["calls", "any", "texts"]),
            st.sampled_from(["nothing", "write", "write in that mode", "16 bits", "bfloat16"]),
        ),
        min_size=2,
        max_size=6,
    ),
)
def test_kept_rows_are_the_plain_reading(seed: int, steps: list[tuple[int, str, str]]) -> None:
    """Rows come and go, are in calls or texts, and are written to by who reads them."""
    made, choose = decoder("mypt"), random.Random(seed)
    tensors, kept = DeviceDecoder(made), KeptRows()
    pool = {"calls": [in_a_call(i) for i in range(5)], "any": some_states(made, seed, 60)}
    pool["texts"] = [made.run(made.start(prompt("mypt")), [50261])]
    generator = torch.Generator().manual_seed(seed)
    for count, kind, then in steps:
        rows = choose.choices(
            [*pool[kind], *pool["calls"]] if kind == "any" else pool[kind], k=count
        )
        dtype: Any = {"16 bits": torch.float16, "bfloat16": torch.bfloat16}.get(then, torch.float32)
        logits = torch.randn(count, made.tables.vocabulary, generator=generator).to(dtype)
        logits[:, seed % 50000] = float("nan")
        expected = plain(rows, logits)
        with torch.inference_mode(then == "write in that mode"):
            found = kept.mask(tensors, logits, rows)
            assert found.dtype is dtype
            assert torch.equal(found.nan_to_num(7), expected)
            if then.startswith("write"):
                found[choose.randrange(count)][seed % 999 :: 999] = 3


def test_little_is_masked_where_it_is() -> None:
    made = decoder("mypt")
    call = in_a_call(2)
    for rows in (8, 64):
        logits = torch.randn(rows, made.tables.vocabulary)
        found = KeptRows().mask(DeviceDecoder(made), logits, [call] * rows)
        assert (found is logits) == (rows == 8)


@ALWAYS
def test_calls_are_written_into_kept_rows() -> None:
    """Logits in calls are read, not written; those in texts are masked where they are."""
    made = decoder("mypt")
    tensors, kept, call = DeviceDecoder(made), KeptRows(), in_a_call(2)
    logits = torch.randn(3, made.tables.vocabulary)
    first = kept.mask(tensors, logits, [call] * 3)
    assert first is not logits
    assert torch.isfinite(logits).all()
    again = kept.mask(tensors, logits[:2], [call, call])
    assert again.data_ptr() == first.data_ptr()
    assert len(again) == 2
    text = made.run(made.start(prompt("mypt")), [50261])
    assert kept.mask(tensors, logits.clone(), [text] * 3).data_ptr() != first.data_ptr()
    logits = torch.randn(6, made.tables.vocabulary)
    for rows in ([text, *[call] * 5], [call] * 6):  # a row that was copied, then a call's
        found = kept.mask(tensors, logits, rows)
        assert found is not logits
        assert torch.equal(found.nan_to_num(7), plain(rows, logits))
    with pytest.raises(ValueError, match="6 rows of logits, 1 states"):
        kept.mask(tensors, logits, [text])
