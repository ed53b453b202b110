"""A server that runs for long holds constant memory: states in bodies are kept within bytes."""

from __future__ import annotations

import gc
import random
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_infer.decode import Decoder, ForgottenState, Response, decoder, guided, limits
from mypt_infer.decode.base import vocab
from mypt_infer.decode.base.vocab import vocabulary
from mypt_infer.decode.decoder import machine
from mypt_spec.memo import Memo
from tests.support.build import function
from tests.support.decoding import in_call, into_call, prompt, requiring
from tests.support.scripted import ids_of

pytest.importorskip("llguidance")
from mypt_infer.decode.llguidance import numbered
from mypt_infer.decode.llguidance import tools as calls


def room_for(states: int, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(numbered, "ROOM", states * 1500)
    return states * 1500


def request(made: Decoder, seed: int) -> list[int]:
    """States of one answer or call."""
    choose = random.Random(seed)
    states = [into_call(made, made.start(prompt(made.dialect.name)))[1]]
    while machine(states[-1]) >= made.tables.size and len(states) < 12:
        token = int(choose.choice(made.ids(states[-1])))
        if made.takes(states[-1], token):
            states.append(made.next(states[-1], token))
    return states


def places(made: Decoder) -> list[Any]:
    engine: Any = made.engine
    engines = [engine.engine, engine] if hasattr(engine, "engine") else [engine]
    return [e.places for e in engines if e.places is not None]


TAGGED = "qwen3-coder"
SHORT = requiring(a={"type": "string", "minLength": 4, "maxLength": 20})
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
    inner = getattr(made.engine, "engine", made.engine)
    numbers = set(inner.places._places)
    assert set(inner.places.numbers.values()) == numbers
    memos = (inner._matchers, inner._offered, inner._options, inner._texts)
    for kept in (*(memo.entries for memo in memos), inner._refused):
        assert set(kept) <= numbers
    numbers = set(places(made)[-1]._places)
    for kept in (made._facts, made.refusals, made._free.entries):
        assert {n for n in kept if n >= made.tables.size} <= numbers


@pytest.mark.usefixtures("frozen_objects")
def test_steps_are_kept_within_bytes() -> None:
    """What an entry is said to take is no less than what it takes, and not twice as much."""
    made = Decoder("mypt")
    each, kept = decoder._JUMP, made._jumps
    gc.collect()
    tracemalloc.start()
    for n in range(20_000):  # numbers as large as those of states
        machine, token = n * 977 % (1 << 24), n * 31 % (1 << 18)
        then = (machine + 1) << decoder.BUDGET_BITS | decoder.NO_BUDGETS
        kept.keep(machine << decoder._ID_BITS | token, then)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept.nbytes == each * 20_000
    assert taken <= kept.nbytes <= 2.5 * taken
    assert (kept._limit + 1) * each > min(kept._room, decoder._JUMPS * each)
    assert kept._limit * each <= kept._room
    assert len(kept.entries) == 20_000


def resident() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) << 10
    pytest.skip("the system does not say what a process holds")


def test_matchers_are_kept_within_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One holds all that it has read, so those of long bodies are few."""
    notes = {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}}
    room = 40 * (guided._MATCHER + 1000 * guided._BYTE)
    monkeypatch.setattr(guided, "_MATCHERS", room)
    made = Decoder("mypt", [requiring(notes=notes)], engine="llguidance")
    inner: Any = made.engine  # type: ignore[attr-defined]
    text = '{"name": "t", "notes": [' + ", ".join('{"k": "some words"}' for _ in range(90))
    state, sizes = in_call(made), list[int]()
    for token in made.dialect.tokenizer.encode(text):
        state = made.next(state, token)
        sizes.append(len(inner._matchers.entries))
        assert inner._matchers.nbytes <= room
    read = inner._at(machine(state)).read
    assert read == len(text.encode())
    assert sizes[-1] < 12, "a state takes the matcher of the one before, which it needs no more"
    for _ in range(2):  # those that are asked again stay
        for number in list(inner.places._places):
            inner._matcher(number)
            assert inner._matchers.nbytes <= room
    assert 10 < len(inner._matchers.entries) <= 60
    here = inner._matcher(machine(state))
    before = resident()
    copies = [here.deep_copy() for _ in range(40)]
    assert resident() - before <= 1.5 * len(copies) * (guided._MATCHER + read * guided._BYTE)


def test_calls_are_kept_within_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what llguidance's grammars take, and the tables."""

    def decoder_of(i: int) -> Decoder:
        tool = function(f"t{i}", {f"a{i}": {"type": "string", "pattern": "^[a-f]+$"}})
        return Decoder("mypt", [tool], engine="llguidance")

    first = decoder_of(0)
    one = calls.bytes_of(first.engine.calls, first.tools, None)  # type: ignore[attr-defined]
    assert one > first.tables.nbytes + calls._GRAMMAR
    kept = Memo[Any, Any](32, room=3 * one + 3000)
    monkeypatch.setattr(calls, "_calls", kept)
    before, sizes = resident(), []
    for i in range(8):
        decoder_of(i)
        sizes.append(len(kept.entries))
        assert kept.nbytes <= 3 * one + 3000
    assert max(sizes) == 3
    assert resident() - before <= 8 * one + (8 << 20)


def test_a_row_goes_on_while_others_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its past is kept with it, and its masks are those of a decoder of its own."""
    room_for(20, monkeypatch)
    made = Decoder("gabgpt", response=Response(regex="[a-z ]{40,} [0-9]+"))
    alone = Decoder("gabgpt", response=Response(regex="[a-z ]{40,} [0-9]+"))
    ids = ids_of("<|assistant|>some words and some more words then", "gabgpt")
    state, other = made.start(prompt("gabgpt")), alone.start(prompt("gabgpt"))
    first = None
    for n, token in enumerate(ids):
        state, other = made.next(state, token), alone.next(other, token)
        first = state if n == 2 else first
        assert (made.ids(state) == alone.ids(other)).all()
        begun = made.run(made.start(prompt("gabgpt")), ids[:1])
        for more in random.Random(n).choices(ids[1:], k=8):
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


def test_what_is_kept_of_dialects_is_bounded_in_bytes() -> None:
    """Each memo of a module has a bound in bytes, and what is in it says its own.

    Caches of functions count entries alone; the automata of numbers and ids depend on no dialect.
    """
    for name in ("mypt", "praxis", TAGGED):
        Decoder(mypt_spec.dialect(name), [function("t", {"a": {"type": "string"}})])
    for name in ("mypt", "praxis"):
        Decoder(name, [SHORT], engine="llguidance")
        Decoder(name, response=Response(schema={"type": "integer"}))
    named = {
        f"{module}.{name}": of
        for module, loaded in sys.modules.items()
        if module.startswith("mypt_infer.decode")
        for name, of in vars(loaded).items()
    }
    caches = [of for of in named.values() if hasattr(of, "cache_info")]
    functions = {of.__name__ for of in caches if of.__module__.startswith("mypt_infer.decode")}
    assert functions == {"ident_dfa", "number_dfa"}
    memos = [*vocab._memos, *(memo for memo in named.values() if isinstance(memo, Memo))]
    assert len(memos) >= 12
    assert not [memo for memo in memos if memo._room == sys.maxsize]
    assert not [memo for memo in memos if set(memo.entries) - set(memo._sizes)]
    words = vocabulary(mypt_spec.dialect("mypt").tokenizer, "gpt2")
    assert 4 << 20 < words.nbytes < 16 << 20


def test_a_step_without_budgets_leaves_those_of_others() -> None:
    """A draw looks at what would come without budgets; the budget of a block goes on all the same."""
    of = Decoder("mypt", [requiring(q={"type": "string"})], max_toolcall_tokens=40)
    _, state = into_call(of, of.start(prompt("mypt"), max_new_tokens=90))
    for token in of.dialect.tokenizer.encode('{"name": "t", "q": "abc def'):
        of.next(of.endless(state), token)
        after = of.next(state, token)
        assert limits.unpacked(after)[2] == limits.unpacked(state)[2] - 1
        state = after
