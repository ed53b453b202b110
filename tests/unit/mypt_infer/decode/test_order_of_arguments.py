"""Arguments of a call may come in any order, each once, and all required ones before the end."""

from __future__ import annotations

import json
import random
from itertools import permutations
from typing import Any

import jsonschema
import pytest

from mypt_infer.decode import Decoder
from mypt_infer.decode.decoder import machine
from tests.support.build import function
from tests.support.decoding import in_call, takes_body

VALUES: dict[str, tuple[dict[str, Any], Any]] = {
    "string": ({"type": "string"}, 'say "a": 1, }'),
    "integer": ({"type": "integer"}, -12),
    "number": ({"type": "number"}, 1.5),
    "boolean": ({"type": "boolean"}, True),
    "enum": ({"enum": ["a", "ab", "b", None]}, "ab"),
    "array": ({"type": "array", "items": {"type": "integer"}}, [1, 2]),
    "object": ({"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": 1}),
}
KEYS = ["a", "ab", "abc", "b", "key", "a b", "ü"]


def some_tool(chance: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """A tool, and arguments that fit it."""
    keys = chance.sample(KEYS, chance.randint(1, 4))
    chosen = {key: VALUES[chance.choice(list(VALUES))] for key in keys}
    required = [key for key in keys if chance.random() < 0.5]
    properties = {key: schema for key, (schema, _) in chosen.items()}
    return function("f", properties, required=required), {k: v for k, (_, v) in chosen.items()}


@pytest.mark.parametrize("seed", range(6))
def test_every_order_is_accepted_and_nothing_else(seed: int) -> None:
    """Also with some arguments left out or written twice: jsonschema judges."""
    chance = random.Random(seed)
    tool, arguments = some_tool(chance)
    of, schema = Decoder("mypt", [tool]), tool["function"]["parameters"]
    for count in range(len(arguments) + 1):
        orders = list(permutations(arguments, count))
        for order in chance.sample(orders, min(6, len(orders))):
            given = {key: arguments[key] for key in order}
            fits = jsonschema.Draft202012Validator(schema).is_valid(given)
            pairs = [f'"{key}": {json.dumps(arguments[key], ensure_ascii=False)}' for key in order]
            head = '{"name": "f"'
            assert takes_body(of, ", ".join([head, *pairs]) + "}") == fits, order
            if pairs:
                again = chance.choice(pairs)
                assert not takes_body(of, ", ".join([head, *pairs, again]) + "}"), (order, again)


def test_nothing_is_forced_where_several_may_follow() -> None:
    """But for what all of them begin with, and all of the last one; budgets know the way, too."""
    both = {"ab": {"type": "boolean"}, "ac": {"type": "boolean"}}
    of = Decoder("mypt", [function("f", both, required=["ab", "ac"])])
    encode, decode = of.dialect.tokenizer.encode, of.dialect.tokenizer.decode
    begun = encode('{"name": "f", "ac": true')
    assert decode(of.forced(in_call(of, '{"name": "f"'), encode('{"name": "f"'))) == ', "'
    state = in_call(of, '{"name": "f", "ac": true')
    assert decode(of.forced(state, begun)).startswith(', "ab":')
    ids = encode(', "ab": true}')
    assert of.minimum(state) <= len(ids) + 2
    for first in ("ab", "ac"):
        there = in_call(of, f'{{"name": "f", "{first}": true')
        assert of.minimum(there) == of.minimum(state), first
    state = of.at(machine(state), max_new_tokens=of.minimum(state))
    while not of.final(state):  # whatever is chosen, the budget is enough
        state = of.next(state, int(of.ids(state)[-1]))


@pytest.mark.parametrize(
    ("counts", "free"),
    [
        ([4], [0]),
        ([5], []),
        ([3, 4, 5, 1], [0, 1, 3]),
        ([4, 2, 4, 4, 2, 4], [0, 1, 2, 3, 4]),
        ([2] * 17, [*range(16)]),
    ],
    ids=str,
)
def test_tables_stay_small(counts: list[int], free: list[int]) -> None:
    """Arguments of the tools that have fewest come in any order, others in that of the schema."""
    tools = [
        function(f"f{i}", {f"k{j}": {"type": "boolean"} for j in range(count)})
        for i, count in enumerate(counts)
    ]
    of = Decoder("mypt", tools)
    for i, count in enumerate(counts):
        text = f'{{"name": "f{i}", "k1": true, "k0": true}}'
        assert takes_body(of, text) == (i in free and count > 1), i
        assert takes_body(of, f'{{"name": "f{i}", "k0": true}}')


def test_large_arguments_keep_the_order_of_the_schema() -> None:
    """All states are there after each set of arguments: these would take 16 times the memory."""
    texts = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(40)}}
    of = Decoder("mypt", [function("f", dict.fromkeys("abcd", texts))])
    assert of.tables.size < 100_000
    assert takes_body(of, '{"name": "f", "a": {"p0": ""}, "d": {}}')
    assert not takes_body(of, '{"name": "f", "d": {}, "a": {}}')


def test_many_steps_keep_the_order_of_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers have few states, and each has steps for hundreds of tokens of digits."""
    of = [Decoder("mypt", [function("f", {key: {"enum": [*range(100)]} for key in "abcd"})])]
    monkeypatch.setattr("mypt_infer.decode.compile.pieces._STEPS", 4000)
    of.append(Decoder("mypt", [function("f", {key: {"enum": [*range(101)]} for key in "abcd"})]))
    free, in_order = (len(one.tables.edges.token) for one in of)
    assert in_order * 8 < free
    assert takes_body(of[1], '{"name": "f", "a": 7, "d": 100}')
    assert not takes_body(of[1], '{"name": "f", "d": 100, "a": 7}')
