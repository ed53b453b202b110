"""Rows of one batch with decoders of their own: each is masked as it would be alone."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mypt_infer.decode import BatchDecoder, Decoder
from mypt_spec import dialect
from mypt_spec.table import LISTS
from tests.support.build import function
from tests.support.decoding import CALLERS, TOOLS, complete, generated, prompt
from tests.support.example_files import loaded
from tests.support.examples import either

torch = pytest.importorskip("torch")
from mypt_infer.generate.generate import generate  # noqa: E402
from mypt_infer.generate.huggingface import TagLogitsProcessor  # noqa: E402
from mypt_infer.generate.loop import plain  # noqa: E402

# Dialects whose calls are in lists, with ids that are numbered.
LISTERS = [n for n in CALLERS if {t.body for t in dialect(n).table.openers.values()} & {*LISTS}]
GUIDED = function("g", {"a": {"type": "string", "pattern": "^x+$"}})


@cache
def decoders(name: str) -> tuple[Decoder, ...]:
    """Decoders with other tools, other limits, and another engine."""
    return (
        Decoder(name, TOOLS[:1]),
        Decoder(name, TOOLS[1:], max_toolcall_tokens=60),
        Decoder(name),
        *([Decoder(name, [GUIDED], engine="auto")] if name in ("mypt", "praxis") else []),
    )


@settings(max_examples=either(6, 60))
@given(
    st.sampled_from(either(["mypt", *LISTERS], CALLERS)),
    st.lists(st.integers(0, 3), min_size=1, max_size=6),
    st.integers(0, 1 << 30),
)
@example("mypt", [3, 0, 1, 2, 3], 1)
def test_each_row_is_masked_as_alone(name: str, which: list[int], seed: int) -> None:
    pytest.importorskip("llguidance")
    own = [decoders(name)[i % len(decoders(name))] for i in which]
    batch, choose = BatchDecoder(own), random.Random(seed)
    states = batch.start([prompt(name)] * len(own), max_new_tokens=120)
    for row, made in enumerate(own):
        ids = list(generated(made, states[row], random.Random(seed + row), bold=0.5))
        for token in ids[: choose.randrange(len(ids))]:
            states[row] = made.next(states[row], token)
    alone = np.concatenate([d.bias([s]) for d, s in zip(own, states, strict=True)])
    assert (batch.bias(states) == alone).all()
    bits = np.concatenate([d.bitmask([s]) for d, s in zip(own, states, strict=True)])
    assert (batch.bitmask(states) == bits).all()
    logits = np.zeros_like(alone)
    batch.apply(logits, states)
    assert (logits == alone).all()
    tokens = [int(choose.choice(d.ids(s))) for d, s in zip(own, states, strict=True)]
    after = [d.next(s, t) for d, s, t in zip(own, states, tokens, strict=True)]
    assert batch.step(states, tokens).tolist() == after


def test_what_does_not_fit_together_is_refused() -> None:
    one = decoders("mypt")[0]
    with pytest.raises(ValueError, match="rows 0 and 1 have decoders of other dialects"):
        BatchDecoder([one, Decoder("gabgpt")])
    with pytest.raises(ValueError, match="got none"):
        BatchDecoder([])
    with pytest.raises(ValueError, match="1 prompts for 2 decoders"):
        BatchDecoder([one, one]).start([prompt("mypt")])
    batch = BatchDecoder([one, one])
    states = batch.start([prompt("mypt")] * 2)
    with pytest.raises(ValueError, match="row 1: id 0 is not allowed"):
        batch.step(states, [50261, 0])


def even(ids: Any) -> Any:
    return torch.zeros(1, 1, 50304).expand(1, ids.shape[1], -1)


@pytest.mark.numeric
@pytest.mark.parametrize("name", ["mypt", "praxis"])
def test_one_generate_has_rows_with_tools_of_their_own(name: str) -> None:
    own = list(decoders(name)[:3])
    prompts = [prompt(name)] * 3
    together = generate(plain(even, 50304), prompts, decoder=own, max_new_tokens=60, seed=4)
    for made, row in zip(own, together, strict=True):
        assert complete(made, row.prompt + row.ids)
        made.run(made.start(row.prompt, max_new_tokens=60), row.ids)
    first = generate(plain(even, 50304), prompts[:1], decoder=own[0], max_new_tokens=60, seed=4)
    assert first[0].ids == together[0].ids
    with pytest.raises(ValueError, match="3 decoders"):
        generate(plain(even, 50304), prompts[:2], decoder=own)
    rollout = loaded("rollout").rollout
    rolled = rollout(plain(even, 50304), prompts, decoder=own, max_new_tokens=40, group=2, seed=1)
    assert [complete(own[i // 2], r.ids.tolist()) for i, r in enumerate(rolled)] == [True] * 6


@pytest.mark.numeric
def test_a_processor_takes_a_decoder_for_each_prompt() -> None:
    own = decoders("mypt")[:3]
    ids = own[0].ids_of(prompt("mypt"))
    processor = TagLogitsProcessor(own, max_new_tokens=60)
    rows = torch.tensor([ids] * 6)  # two beams a prompt
    for _ in range(4):
        scores = processor(rows, torch.zeros(6, 50304))
        for i in range(6):
            alone = TagLogitsProcessor(own[i // 2], max_new_tokens=60)
            alone(torch.tensor([ids]), torch.zeros(1, 50304))
            assert torch.equal(scores[i], alone(rows[i : i + 1], torch.zeros(1, 50304))[0])
        rows = torch.cat([rows, torch.multinomial(scores.softmax(-1), 1)], 1)
    with pytest.raises(ValueError, match="4 rows for 3 decoders"):
        TagLogitsProcessor(own)(rows[:4], torch.zeros(4, 50304))


def test_logits_that_are_no_array_are_refused_as_such() -> None:
    of = Decoder("gabgpt")
    state, size = of.start(prompt("gabgpt")), of.tables.vocabulary
    wrong: tuple[Any, ...] = (torch.zeros(1, size), [[0.0] * size])
    for logits in wrong:
        with pytest.raises(TypeError, match=r"logits are a \w+, expected an array of numpy"):
            of.apply(logits, [state])
