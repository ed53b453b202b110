"""Rows that come and go over one KV cache, and prompts that begin alike."""

from __future__ import annotations

import random

import pytest

from mypt_infer.generate.llama import LlamaConfig
from mypt_infer.generate.loop import read
from mypt_infer.serve.slots import Slots
from tests.support.tiny_models import random_model
from tests.support.tolerance import assert_close, forward_terms, is_close

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize("seed", range(4))
def test_rows_say_what_they_say_alone(seed: int) -> None:
    """Whatever rows read, end and begin with each other's ids: the logits are those of a new row."""
    model = random_model(LlamaConfig(50, 16, 32, 2, 2, 1), seed)
    chance, slots = random.Random(seed), Slots(model, 4)
    rows: list[list[int]] = []
    reused = seen = 0
    for _ in range(40):
        act = chance.random()
        if rows and (act < 0.25 or len(rows) == 4):
            at = chance.randrange(len(rows))
            slots.drop(at)
            rows[at] = rows[-1]
            rows.pop()
            continue
        if not rows or act < 0.6:
            begun = chance.choice([[1, 2, 3, 4, 5], [1, 2, 3, 6], [7, 8]])
            prompt = begun + [chance.randrange(50) for _ in range(chance.randrange(5))]
            assert slots.add() == len(rows)
            same = slots.begin(len(rows), prompt)
            assert same < len(prompt)
            reused += same
            rows.append(prompt[:same])
            parts = [[] for _ in rows[:-1]] + [prompt[same:]]
        else:
            parts = [[chance.randrange(50)] * chance.randrange(3) for _ in rows]
        if not any(parts):
            continue
        found = slots.read(range(len(rows)), parts)
        for at, part in enumerate(parts):
            rows[at] = rows[at] + part
            if part:
                alone = read(model, [rows[at]], model.begin(1, 99), "cpu")[0]
                terms = forward_terms(model.config, len(rows[at]))
                assert_close(found[at], alone, terms=terms)
                if len(rows) > 1:
                    mixed = read(model, [rows[at - 1] + rows[at]], model.begin(1, 99), "cpu")[0]
                    seen += not is_close(found[at], mixed, terms=terms)
    assert reused > 10
    assert seen > 10, "a row that reads another one is seen"
