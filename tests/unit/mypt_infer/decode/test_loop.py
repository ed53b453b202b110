"""The loop that samples, against one that reads every row from its beginning for each token."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mypt_infer.decode import Decoder
from mypt_spec.encoder import tag_ids
from mypt_spec.episode import Event
from tests.support.decoding import DIALECTS, decoder, prompt
from tests.support.dialects import FEW
from tests.support.examples import either

torch = pytest.importorskip("torch")
from mypt_infer.controller.model_source import ModelSource  # noqa: E402
from mypt_infer.generate.generate import generate  # noqa: E402
from mypt_infer.generate.legality import (  # noqa: E402
    LEGAL,
    NARROWER,
    NOT_DECLARED,
    UNFINISHED,
    alone,
    judge,
)
from mypt_infer.generate.loop import plain, read, run  # noqa: E402
from mypt_infer.generate.sample import Sampling, draw, draw_free  # noqa: E402

SIZE, BUDGET = 50304, either(24, 40)


def logits_of(ids: Any) -> Any:
    """Logits that depend on all ids, to the bit the same in each batch."""
    seed = hash(tuple(ids[0].tolist())) % 2**40
    last = torch.randn(SIZE, generator=torch.Generator().manual_seed(seed)) * 4
    return last.expand(1, ids.shape[1], -1)


def prompts_of(made: Decoder, name: str) -> list[list[int]]:
    """Prompts of different lengths."""
    first = made.ids_of(prompt(name))
    text = made.dialect.tokenizer.encode(" Well, then.")
    state = made.start(first)
    longer = [first + text[:n] for n in (1, 3)] if _may_go_on(made, state, text) else []
    return [first, *longer, first]


def _may_go_on(made: Decoder, state: int, text: list[int]) -> bool:
    try:
        made.run(state, text)
    except ValueError:
        return False
    return True


def naive(made: Decoder, ids: list[int], seed: object, sampling: Sampling) -> list[int]:
    """An answer to one prompt: each step reads the whole row; what must come is not drawn."""
    chance = random.Random(seed)
    state, out = made.start(ids, max_new_tokens=BUDGET), []
    while not made.final(state):
        found = made.allow(state)
        if found.count == 1 and found.only is not None:
            token = int(found.only[0])
        else:
            logits = logits_of(torch.tensor([ids + out]))[0, -1]
            token = draw(logits, state, made, sampling, chance.random()).token  # type: ignore[arg-type]
        out.append(token)
        state = made.next(state, token)
    return out


@pytest.mark.parametrize("name", FEW)
def test_every_reader_draws_the_same_tokens(name: str) -> None:
    """A batch of rows, and the source of a controller, one token at a time, without jumps."""
    made, model = decoder(name), plain(logits_of, SIZE)
    sampling = Sampling(temperature=0.8, top_k=400)
    prompts = prompts_of(made, name)
    expected = [naive(made, ids, f"7 {row}", sampling) for row, ids in enumerate(prompts)]
    options = {"max_new_tokens": BUDGET, "temperature": 0.8, "top_k": 400, "seed": 7}
    answers = generate(model, prompts, decoder=made, jump_forward=False, **options)
    assert [answer.ids for answer in answers] == expected
    for row, ids in enumerate(prompts):
        source = ModelSource(model, made, sampling=sampling, seed=f"7 {row}")  # type: ignore[arg-type]
        source.append(ids)
        assert [source.next(BUDGET - n) for n in range(len(expected[row]))] == expected[row]


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_without_a_constraint(name: str, temperature: float) -> None:
    made, prompts = decoder(name), prompts_of(decoder(name), name)
    expected = list[str]()
    for row, ids in enumerate(prompts):
        chance, state, out, result = random.Random(f"7 {row}"), made.start(ids), list(ids), ""
        for _ in range(BUDGET):
            logits = logits_of(torch.tensor([out]))[0, -1]
            out.append(draw_free(logits, temperature, chance.random()))
            try:
                state = made.next(state, out[-1])
            except ValueError:
                result = judge(made.dialect, out)
                if result in (LEGAL, UNFINISHED):
                    result = NOT_DECLARED if made.calling(state) else NARROWER
                break
            if made.final(state):
                result = judge(made.dialect, out)
                break
        expected.append(result or UNFINISHED)
    options = {"max_new_tokens": BUDGET, "temperature": temperature, "seed": 7}
    assert alone(plain(logits_of, SIZE), prompts, made, **options) == expected


@pytest.mark.parametrize("name", DIALECTS)
def test_a_beginning_is_unfinished(name: str) -> None:
    d = decoder(name).dialect
    assert judge(d, []) == UNFINISHED
    opener = d.table.openers.get("system")
    if opener is not None and opener.name in d.automaton.steps[d.automaton.start]:
        ids = tag_ids(Event(opener.name, opener.spell()), d.table, d.tokenizer)
        assert judge(d, ids) == UNFINISHED


@pytest.mark.numeric
def test_rows_end_one_by_one() -> None:
    """A row that ended is not read any more, and the others do not notice."""
    read_of: list[list[int]] = []

    def counted(ids: Any) -> Any:
        read_of.append(ids[0].tolist())
        return logits_of(ids)

    seen: list[list[int]] = [[], [], []]

    def choose(row: int, logits: Any) -> list[int] | None:
        seen[row].append(int(logits.argmax()))
        return None if len(seen[row]) > row else [seen[row][-1]] * 2

    run(plain(counted, SIZE), [[1, 2], [3], [4, 5, 6]], 20, choose)
    assert [len(tokens) for tokens in seen] == [1, 2, 3]
    assert len(read_of) == 6
    for row, ids in enumerate(([1, 2], [3], [4, 5, 6])):
        for token in seen[row]:
            assert token == int(logits_of(torch.tensor([ids]))[0, -1].argmax())
            ids += [token] * 2


def test_no_rows_at_all() -> None:
    run(plain(logits_of, SIZE), [], 20, lambda row, logits: None)


@pytest.mark.numeric
def test_rows_of_different_lengths_are_filled_up() -> None:
    model = plain(logits_of, SIZE)
    rows = read(model, [[5, 6, 7], [], [8]], model.begin(3, 9), "cpu")
    assert torch.equal(rows[0], logits_of(torch.tensor([[5, 6, 7]]))[0, -1])
    assert torch.equal(rows[2], logits_of(torch.tensor([[8]]))[0, -1])
