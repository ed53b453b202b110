"""The decoder on tensors says what the decoder says, in one graph."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from tests.support.decoding import decoder, generated, in_call, next_tokens, prompt, some_states
from tests.support.examples import either

torch = pytest.importorskip("torch")
from mypt_infer.generate.device import DeviceDecoder  # noqa: E402

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize("engine", ["table", "llguidance"])
@pytest.mark.parametrize("name", ["usf-omega", "mypt"])
@pytest.mark.parametrize("budget", [None, 90])
def test_walks_through_calls_agree(name: str, engine: str, budget: int | None) -> None:
    """Token by token: rows in calls, whose states are numbered on the host, next to rows that are
    not; the ids drawn, and the ids refused.
    """
    if engine == "llguidance":
        pytest.importorskip("llguidance")
    made = decoder(name, call=70, engine=engine)
    device, rows, numbered = DeviceDecoder(made), 6 if engine == "table" else 2, 0
    choose = random.Random(f"{name} {engine} {budget}")
    first = made.start(prompt(name), max_new_tokens=budget)
    walks = [generated(made, first, choose, bold=0.6) for _ in range(rows)]
    states = torch.full((rows,), first)
    for _ in range(either(40, 120) if engine == "table" else either(20, 40)):
        bias = made.bias(states.tolist())
        assert (device.bias(states).numpy() == bias).all()
        numbered += int((states >> 38 >= made.tables.size).sum())
        refused = torch.from_numpy(np.isinf(bias).argmax(axis=1))
        assert not device.step(states, refused).any()
        tokens = next_tokens(made, walks, states, first, choose)
        after = device.step(states, torch.tensor(tokens))
        assert after.tolist() == made.step(states.tolist(), tokens).tolist()
        states = after
    assert bool(numbered) == (not made.engine.tables_only)


def test_lists_of_calls_with_ids_agree() -> None:
    """Each list next to its own beginning: a forbidden id is refused alike."""
    made = decoder("usf-omega", call=4000)
    device, encode = DeviceDecoder(made), made.dialect.tokenizer.encode
    opening, rest = made.dialect.tokenizer.special["<tool_calls_start>"], []
    for ids in (["a", "ab", "b"], ["größe", "x" * 64], ["c1", "c", "c11", "c2"]):
        calls = [
            {"id": i, "type": "function", "function": {"name": "list_docs", "arguments": {}}}
            for i in ids
        ]
        rest.append([opening, *encode(json.dumps(calls, ensure_ascii=False))])
    size = min(map(len, rest))
    states = torch.full((len(rest),), made.start(prompt("usf-omega"), max_new_tokens=5000))
    for at in range(size):
        bias = made.bias(states.tolist())
        assert (device.bias(states).numpy() == bias).all()
        tokens = [row[at] for row in rest]
        assert not np.isinf(bias[range(len(rest)), tokens]).any()
        after = device.step(states, torch.tensor(tokens))
        assert after.tolist() == made.step(states.tolist(), tokens).tolist()
        states = after
    again = encode('[{"id": "a", "type": "function", "function": {"name": "list_docs", "arguments": {}}}, {"id": "a')  # fmt: skip
    state = made.run(made.start(prompt("usf-omega")), [opening, *again])
    quote = torch.tensor(encode('"'))
    assert not device.step(torch.tensor([state]), quote).any(), "an id stands once in a message"


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
        assert after.tolist() == [
            made.next(s, i) if s and made.allow(s).count else 0
            for s, i in zip(states.tolist(), ids.tolist(), strict=True)
        ]
        states = after


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
