"""A server that runs for long holds constant memory: states in bodies are kept within bytes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from mypt_infer.decode import Decoder, ForgottenState, Response
from mypt_infer.decode.decoder import machine
from tests.support.decoding import prompt

pytest.importorskip("llguidance")
from mypt_infer.decode.llguidance import numbered


def room_for(states: int, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(numbered, "ROOM", states * 1500)
    return states * 1500


def request(made: Decoder, seed: int) -> list[int]:
    """States of one answer or call."""
    choose, state = random.Random(seed), made.start(prompt(made.dialect.name))
    goal = list(made.tables.holes)
    near = made.tables.measure(np.isin(np.arange(made.tables.size), goal))
    while machine(state) < made.tables.size:
        ids = made.ids(state)
        following = made.tables.following(machine(state))[made.tables.classes[ids]]
        state = made.next(state, int(ids[near[following].argmin()]))
    states = [state]
    while machine(states[-1]) >= made.tables.size and len(states) < 12:
        token = int(choose.choice(made.ids(states[-1])))
        if made.takes(states[-1], token):
            states.append(made.next(states[-1], token))
    return states


def places(made: Decoder) -> list[Any]:
    engine: Any = made.engine
    inner = [engine.engine] if hasattr(engine, "engine") else [engine]
    out = [e.guided.places for e in inner if hasattr(e, "guided")]
    return [*out, engine._places] if hasattr(engine, "_places") else out


SHORT = {
    "name": "t",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "string", "minLength": 4, "maxLength": 20}},
        "required": ["a"],
    },
}
ANSWERS = ("gabgpt", {"response": Response(regex="[a-z ]{9,30}[0-9]")})
CALLS = ("mypt", {"tools": [SHORT], "engine": "llguidance"})
LISTS = ("usf-omega", {"tools": [SHORT], "engine": "llguidance"})


@pytest.mark.parametrize(("name", "options"), [ANSWERS, CALLS, LISTS], ids=["answers", "calls", "lists"])  # fmt: skip
def test_states_are_kept_within_bytes(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that is kept of a state is forgotten with it."""
    room = room_for(50, monkeypatch)
    made = Decoder(name, **options)
    for seed in range(40):
        request(made, seed)
        assert all(p.size <= 2 * room and len(p) < 150 for p in places(made))
    assert made.epoch > 2
    inner = getattr(made.engine, "engine", made.engine).guided
    numbers = set(inner.places._places)
    assert set(inner.places.known.values()) == numbers
    memos = (inner._matchers, inner._offered, inner._options, inner._texts)
    for kept in (*(memo.known for memo in memos), inner._refused):
        assert set(kept) <= numbers
    numbers = set(places(made)[-1]._places)
    for kept in (made._facts, made.refusals, made._free.known):
        assert {n for n in kept if n >= made.tables.size} <= numbers


def test_a_row_goes_on_while_others_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its past is kept with it, and its masks are those of a decoder of its own."""
    room_for(20, monkeypatch)
    made = Decoder("gabgpt", response=Response(regex="[a-z ]{40,} [0-9]+"))
    alone = Decoder("gabgpt", response=Response(regex="[a-z ]{40,} [0-9]+"))
    ids = [made.dialect.tokenizer.special["<|assistant|>"]]
    ids += made.dialect.tokenizer.encode("some words and some more words then")
    state, other = made.start(prompt("gabgpt")), alone.start(prompt("gabgpt"))
    first = None
    for n, token in enumerate(ids):
        state, other = made.next(state, token), alone.next(other, token)
        first = state if n == 2 else first
        assert (made.ids(state) == alone.ids(other)).all()
        for seed in range(1):
            begun = made.run(made.start(prompt("gabgpt")), ids[:1])
            for more in random.Random(f"{n} {seed}").choices(ids[1:], k=8):
                begun = made.next(begun, more) if more in made.ids(begun) else begun
    assert made.epoch > 0
    assert first is not None
    made.ids(first)


def test_a_state_that_was_forgotten_is_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    room_for(40, monkeypatch)
    made = Decoder("gabgpt", response=ANSWERS[1]["response"])
    old = request(made, 1)[-2]
    for seed in range(2, 30):
        request(made, seed)
    with pytest.raises(ForgottenState, match=r"was forgotten: .* start again from the prompt"):
        made.allow(old)
    with pytest.raises(ForgottenState):
        made.accepts(old, [0])


@pytest.mark.parametrize(("name", "options"), [ANSWERS, CALLS, LISTS], ids=["answers", "calls", "lists"])  # fmt: skip
def test_a_state_that_is_held_is_kept(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all that it comes from, as long as its holder lives; the bound holds for the others."""
    room = room_for(30, monkeypatch)
    made, alone = Decoder(name, **options), Decoder(name, **options)
    states, others = request(made, 1), request(alone, 1)
    inside = [i for i, state in enumerate(states) if machine(state) >= made.tables.size][-3]
    held = made.hold(states[inside : inside + 1])
    for seed in range(2, 20):
        request(made, seed)
    assert made.epoch > 1
    assert all(p.size <= 2 * room for p in places(made))
    at, other = held.states[0], others[inside]
    assert at is not None
    for _ in range(2):
        assert (made.ids(at) == alone.ids(other)).all()
        token = next(i for i in alone.ids(other)[::-1].tolist() if alone.takes(other, i))
        at, other = made.next(at, token), alone.next(other, token)
    old = held.states[0]
    del held
    for seed in range(2, 20):
        request(made, seed)
    assert old is not None
    with pytest.raises(ForgottenState):
        made.allow(old)
