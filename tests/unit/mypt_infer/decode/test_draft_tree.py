"""A tree of drafted tokens: what holds and what may follow is what the decoder says step by step."""

from __future__ import annotations

import doctest
import random
from typing import Any

import numpy as np
import pytest

from mypt_infer.decode import Decoder
from tests.support.decoding import CALLERS, TOOLS, complete, decoder, generated, prompt
from tests.support.example_files import loaded
from tests.support.examples import either

TREES = loaded("draft_tree")
draft_tree = TREES.draft_tree


def draft_of(made: Decoder, state: int, choose: random.Random) -> tuple[list[int], list[int]]:
    """A tree of some legal beginnings, with an id here and there that may be wrong."""
    parents, ids = list[int](), list[int]()
    for _ in range(4):
        at, way = -1, state
        for token in generated(made, state, choose):
            token = token if choose.random() > 0.08 else choose.randrange(50304)
            parents.append(at)
            ids.append(token)
            at = len(ids) - 1
            if not made.accepts(way, [token]) or choose.random() < 0.1 or len(ids) > 16:
                break
            way = made.next(way, token)
    # An id that nothing allows, and one after it.
    return [*parents, -1, len(ids)], [*ids, 50303, 314]


def by_steps(made: Decoder, state: int, tree: Any, node: int) -> int | None:
    """The state after a node, walked from the beginning; None if an id before it is refused."""
    path = []
    while node >= 0:
        path.append(tree.ids[node])
        node = tree.parents[node]
    return made.run(state, path[::-1]) if made.accepts(state, path[::-1]) == len(path) else None


@pytest.mark.parametrize(
    ("name", "engine"),
    [(name, "table") for name in CALLERS]
    + [(name, "llguidance") for name in either(["mypt", "usf-omega"], CALLERS)],
)
def test_a_tree_is_many_walks(name: str, engine: str) -> None:
    if engine == "llguidance":
        pytest.importorskip("llguidance")
    made = decoder(name, think=4, call=40, engine=engine)
    for seed in range(either(1, 3) if engine == "table" else 1):
        choose = random.Random(f"{name} {seed}")
        state = made.start(prompt(name), max_new_tokens=choose.choice([44, 60, 200]))
        for token in list(generated(made, state, choose))[: choose.randrange(12)]:
            state = made.next(state, token)
        parents, ids = draft_of(made, state, choose)
        tree = draft_tree(made, state, parents, ids)
        assert tree.bitmask.shape == (len(ids) + 1, -(-made.tables.vocabulary // 32))
        assert (tree.bitmask[0] == made.bitmask([state])[0]).all()
        for node in range(len(ids)):
            there = by_steps(made, state, tree, node)
            assert tree.states[node] == there
            assert tree.legal[node] == (there is not None)
            expected = made.bitmask([there])[0] if there is not None else 0
            assert (tree.bitmask[node + 1] == expected).all()
        assert not tree.legal[-2:].any()


def test_its_examples_are_right() -> None:
    assert doctest.testmod(TREES).attempted
    assert not doctest.testmod(TREES).failed


def test_a_bad_tree_is_named() -> None:
    made = decoder("gabgpt", tools=False)
    state = made.start(prompt("gabgpt"))
    with pytest.raises(ValueError, match="node 1 has parent 1, which does not come before it"):
        draft_tree(made, state, [-1, 1], [50258, 5])
    with pytest.raises(ValueError, match="node 0 has parent -2"):
        draft_tree(made, state, [-2], [50258])
    with pytest.raises(ValueError, match="2 parents for 1 ids"):
        draft_tree(made, state, [-1, 0], [50258])
    empty = draft_tree(made, state, [], [])
    assert empty.bitmask.shape[0] == 1
    assert empty.taken([50258]) == []


class Model:
    """Likes some ids after each id."""

    def __init__(self, seed: int) -> None:
        self.scores = np.random.default_rng(seed).standard_normal((97, 50304)).astype(np.float32)
        self.passes = 0

    def choices(self, last: list[int], bitmask: np.ndarray[Any, Any]) -> list[int]:
        """The best allowed id after each of some ids, in one pass."""
        self.passes += 1
        allowed = np.unpackbits(bitmask.view(np.uint8), axis=1, bitorder="little")[:, :50304]
        logits = np.where(allowed, self.scores[[i % 97 for i in last]], -np.inf)
        return [int(i) for i in logits.argmax(1)]


@pytest.mark.parametrize("name", ["mypt", "usf-omega"])
@pytest.mark.parametrize("budget", [50, 90])
def test_speculation_changes_nothing_but_the_passes(name: str, budget: int) -> None:
    """With drafts that are right, wrong or illegal; the budget is spent as without them."""
    made, choose = decoder(name, think=6, call=40), random.Random(budget)
    before = made.ids_of(prompt(name))
    first = made.start(before, max_new_tokens=budget)
    slow, quick = Model(1), Model(1)
    state, plain = first, list[int]()
    while not made.final(state):
        plain += slow.choices([[*before, *plain][-1]], made.bitmask([state]))
        state = made.next(state, plain[-1])
    state, out = first, list[int]()
    while not made.final(state):
        parents, ids = list[int](), list[int]()
        for start in (0, 0, 1):  # two ways from here, and one beside the second id
            at = -1 if start == 0 else 0
            for token in plain[len(out) + start : len(out) + 4]:
                parents.append(at)
                ids.append(token if choose.random() < 0.8 else choose.randrange(50304))
                at = len(ids) - 1
        tree = draft_tree(made, state, parents, ids)
        chosen = quick.choices([[*before, *out][-1], *ids], tree.bitmask)
        taken = tree.taken(chosen)
        out += [ids[node] for node in taken]
        state = tree.states[taken[-1]] if taken else state  # type: ignore[assignment]
        if not made.final(state):
            out.append(chosen[taken[-1] + 1 if taken else 0])
            state = made.next(state, out[-1])
    assert out == plain
    assert complete(made, before + out)
    assert len(out) <= budget
    assert quick.passes < 0.7 * slow.passes


def test_a_tree_costs_one_fill_of_each_state() -> None:
    """Equal branches are one: a tree of a thousand nodes with two states fills three masks."""
    made = Decoder("mypt", TOOLS)
    state = made.start(prompt("mypt"), max_new_tokens=90)
    filled, fill = list[int](), made.bitmask
    made.bitmask = lambda states: filled.extend(states) or fill(states)  # type: ignore[method-assign,assignment,func-returns-value]
    tree = draft_tree(made, state, [-1] * 500 + list(range(500)), [50261] * 500 + [314] * 500)
    assert tree.legal.all()
    assert len(filled) == 3
