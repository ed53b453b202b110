"""A budget that an answer does not reach refuses none of its ids, whatever reads it."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest

from mypt_infer.decode import Decoder, Response
from mypt_infer.decode.decoder import machine
from tests.support.decoding import prompt
from tests.support.dialects import FEW
from tests.support.examples import either

pytest.importorskip("llguidance")


def record(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


WORDS = {"enum": ["Oslo", "New York", "a much longer name of a place that nobody knows", "Rome"]}
CODE = {"type": "string", "pattern": "^[a-zäöü]+-[0-9]{1,3}$"}
SCHEMAS: dict[str, dict[str, Any]] = {
    "free": record(name={"type": "string"}, age={"type": "integer"}, city={"type": "string"}),
    "enums": record(city=WORDS, sure={"type": "boolean"}, next=WORDS),
    "numbers": record(a={"type": "number"}, b={"type": "integer", "minimum": -5, "maximum": 700}),
    "lengths": record(a={"type": "string", "minLength": 3, "maxLength": 9}, b={"type": "null"}),
    "pattern": record(code=CODE, name={"type": "string"}),
    "list": record(days={"type": "array", "items": {"type": "integer"}}, note={"type": "string"}),
    "either": {"anyOf": [record(a={"type": "string"}), record(b=WORDS, c={"type": "integer"})]},
    "optional": record(a={"type": "string"}) | {"properties": {"a": {"type": "string"}, "b": CODE}},
}


MORE = either((0, 2, 20, 80), (0, 1, 2, 5, 10, 20, 40, 80))  # tokens that the answer leaves
# The quick suite has each dialect with two schemas, and each schema with some dialects.
CASES = [
    (name, schema)
    for i, name in enumerate(FEW)
    for j, schema in enumerate(SCHEMAS)
    if (i + j) % either(4, 1) == 0
]


@cache
def bound(name: str, schema: str) -> Decoder:
    return Decoder(name, response=Response(schema=SCHEMAS[schema]))


def natural(of: Decoder, before: list[int], chance: random.Random) -> list[int]:
    """Returns the ids of an answer: half of them drawn, the others on the way to an end."""
    state, ids = of.start(before), list[int]()
    while not of.final(state):
        near = of.engine.allow(machine(state))
        token = int(near.ids[near.distance.argmin()])
        if chance.random() < 0.5:
            token = int(chance.choice(of.ids(state)))
        if of.takes(state, token):
            ids.append(token)
            state = of.next(state, token)
    return ids


@pytest.mark.parametrize(("name", "schema"), CASES)
def test_a_budget_that_is_not_reached_refuses_no_id_of_the_answer(name: str, schema: str) -> None:
    of = bound(name, schema)
    before = of.ids_of(prompt(name))
    for seed in range(either(1, 12)):
        ids = natural(of, before, random.Random(f"{name} {schema} {seed}"))
        for budget in (len(ids) + more for more in MORE):
            state = of.start(before, max_new_tokens=budget)
            for at, token in enumerate(ids):
                assert of.allow(state).has(token), (
                    budget,
                    len(ids),
                    at,
                    of.dialect.tokenizer.decode(ids),
                )
                state = of.next(state, token)


@pytest.mark.parametrize("name", ["mypt", "qwen3"])
def test_where_all_ids_fit_a_budget_leaves_all(name: str) -> None:
    """Each letter of a free string has room, so the first letter may be any."""
    of = bound(name, "free")
    before = of.ids_of(prompt(name))
    text = of.dialect.tokenizer.encode('{"name": "')
    state = of.start(before)
    while not of.allow(state).has(text[0]):
        state = of.next(state, int(of.ids(state)[0]))
    free = of.allow(of.run(state, text))
    least = of.minimum(of.run(state, text))
    assert free.count > 40_000
    for left in range(least + 4, least + 40):
        there = of.at(machine(of.run(state, text)), max_new_tokens=left)
        assert of.allow(there).count == free.count, left
