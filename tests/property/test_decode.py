"""Invariant 7: every generation ends legal, whatever the model prefers, at every budget that can hold
a legal ending.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_infer.decode import BudgetError, Decoder
from mypt_infer.decode.decoder import machine
from mypt_infer.decode.limits import closing_tokens
from mypt_infer.decode.prompt import opening
from mypt_spec.bodies.json_schema import misfits
from mypt_spec.encoder import run_ids, trail_ids
from mypt_spec.episode import Event, Message, Part, events_of
from mypt_spec.lexer import lex_ids
from mypt_spec.states import awaits_result, result_opener
from mypt_spec.validator import Run
from tests.support.decoding import (
    CALLERS,
    DIALECTS,
    GUIDED_TOOLS,
    TOOLS,
    calls_in,
    complete,
    decoder,
    distances,
    generated,
    guided_decoder,
    into_call,
    nearest,
    prompt,
)
from tests.support.dialects import FEW
from tests.support.examples import either, examples

SCHEMAS = {f.get("function", f)["name"]: f.get("function", f)["parameters"] for f in (*TOOLS, *GUIDED_TOOLS)}  # fmt: skip
SEEDS = either(1, 4)
READERS = [(decoder, name) for name in FEW]
READERS += [(guided_decoder, name) for name in CALLERS if name in FEW]


def begin(read: Callable[[str], Decoder], name: str) -> tuple[Decoder, list[int], list[int], int]:
    """A decoder, its prompt, the ids that every answer begins with, and the least budget.

    Of calls that llguidance reads, the way into one: what is beside them is that of the tables.
    """
    if read is guided_decoder:
        pytest.importorskip("llguidance")
    made, first = read(name), list[int]()
    ids = made.ids_of(prompt(name))
    state = made.start(ids)
    if read is guided_decoder:
        first, state = into_call(made, state)
    return made, ids, first, len(first) + made.minimum(state)


def budgets(read: Callable[[str], Decoder], least: int) -> Iterable[int]:
    """The budgets to try; in the quick suite, few of those that are not tight."""
    if read is guided_decoder:
        return either([least, least + 1, least + 3, 50], [*range(least, least + 5), 45, 64])
    return either([*range(least, least + 8), *range(least + 8, 65, 9)], [*range(least, 65)])


@pytest.mark.parametrize(("read", "name"), READERS)
def test_every_budget_ends_legal(read: Callable[[str], Decoder], name: str) -> None:
    """Calls fit their schemas, whether tables hold these or llguidance reads them."""
    made, ids, first, least = begin(read, name)
    calls = 0
    for budget in budgets(read, least):
        for seed in range(SEEDS):
            choose = random.Random(f"{budget} {seed}")
            state = made.run(made.start(ids, max_new_tokens=budget), first)
            out = [*first, *generated(made, state, choose)]
            assert len(out) <= budget
            assert complete(made, ids + out), made.dialect.tokenizer.decode(out)
            for call in calls_in(made, ids + out):
                assert misfits(call.arguments, SCHEMAS[call.name]) == []
                calls += 1
    assert calls or name not in CALLERS


@pytest.mark.parametrize(("read", "name"), READERS)
def test_a_model_that_flees_the_end_is_brought_to_it(
    read: Callable[[str], Decoder], name: str
) -> None:
    """The worst token each time: the one from which a legal ending is furthest."""
    made, ids, first, least = begin(read, name)
    for budget in (least + 3, 64) if first else budgets(read, least):
        state, out = made.run(made.start(ids, max_new_tokens=budget), first), [*first]
        while not made.final(state):
            allowed = made.ids(state)
            out.append(int(allowed[np.argmax(distances(made, state, allowed))]))
            state = made.next(state, out[-1])
        assert len(out) <= budget
        assert len(out) == budget or name == "praxis" or first, "it uses all that it was given"
        assert complete(made, ids + out), made.dialect.tokenizer.decode(out)


@pytest.mark.parametrize("name", DIALECTS)
def test_a_tight_budget_cuts_no_tag_short(name: str) -> None:
    """Whoever aims for a call and has no room for it leaves no piece of its tag in the text."""
    made, calls = decoder(name), 0
    ids = made.ids_of(prompt(name))
    for budget in either(range(made.minimum(made.start(ids)), 40, 2), range(made.minimum(made.start(ids)), 40)):  # fmt: skip
        for seed in range(SEEDS):
            choose = random.Random(f"{budget} {seed}")
            out = list(towards_a_call(made, made.start(ids, max_new_tokens=budget), choose))
            states = [made.start(ids)]
            states += [made.run(states[0], out[:n]) for n in range(1, len(out), 4)]
            calls += any(map(made.calling, states))
            episode, findings = made.dialect.parse_ids(ids + out)
            findings = [*findings, *(made.dialect.validate(episode) if episode else ())]
            faults = [f.message for f in findings if f.code in ("MYP303", "MYP801")]
            assert not faults, made.dialect.tokenizer.decode(out)
            assert complete(made, ids + out)
    assert calls or name not in CALLERS


def towards_a_call(made: Decoder, state: int, choose: random.Random) -> Iterator[int]:
    """Ids that lead to a call by the shortest way, or else to an ending, or anywhere."""
    while not made.final(state):
        ids = made.ids(state)
        if choose.random() < 0.9 and machine(state) < made.tables.size and not made.calling(state):
            near = nearest(made, state, ids)
            ids = ids[near == near.min()] if near.min() < 40 else ids
        elif choose.random() < 0.3:
            far = distances(made, state, ids)
            ids = ids[far == far.min()]
        yield (token := int(choose.choice(ids)))
        state = made.next(state, token)


@pytest.mark.parametrize("name", DIALECTS)
def test_below_the_minimum_nothing_is_drawn(name: str) -> None:
    made = decoder(name)
    least = made.minimum(made.start(prompt(name)))
    made.start(prompt(name), max_new_tokens=least)
    with pytest.raises(BudgetError, match=f"takes {least} tokens") as caught:
        made.start(prompt(name), max_new_tokens=least - 1)
    assert caught.value.minimum == least


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("cap", [2, 6])
def test_blocks_keep_their_budgets(name: str, cap: int) -> None:
    """Counted in the tokens that were drawn, not in those that the text would be encoded as."""
    made = decoder(name, think=cap, call=48)
    ids = made.ids_of(prompt(name))
    longest = [0, 0, 0]
    for seed in range(either(10, 30)):
        state, inside, out = made.start(ids, max_new_tokens=200), 0, list[int]()
        for token in generated(made, state, random.Random(seed), bold=(0.15, 0.4)[seed % 2]):
            out.append(token)
            state = made.next(state, token)
            block = made.engine.state_facts(machine(state)).block
            inside = inside + 1 if block else 0
            longest[block] = max(longest[block], inside - 1)
        assert complete(made, ids + out)
    closing = [0, *(closing_tokens(made.dialect, block) for block in (1, 2))]
    assert longest[1] <= cap + closing[1] - 1
    assert longest[2] <= 48 + closing[2] - 1
    assert longest[2] > 8 or name not in CALLERS


@pytest.mark.parametrize(("name", "opened"), [("mypt", "<myPT_assistant><myPT_think>"), ("gabgpt", "<|think|>"), ("usf-omega", "<reasoning_start>")])  # fmt: skip
def test_a_thought_may_be_as_long_as_its_budget(name: str, opened: str) -> None:
    made = decoder(name, think=6, call=48)
    state = made.start(prompt(name))
    for tag in opened.replace("><", ">\n<").splitlines():
        state = made.next(state, made.dialect.tokenizer.special[tag])
    word, count = made.dialect.tokenizer.encode(" word")[0], 0
    while made.allowed(state)[word]:
        state, count = made.next(state, word), count + 1
    assert count == 6
    assert not set(made.ids(state)) & set(made.dialect.tokenizer.ordinary), "only tags are left"


@given(name=st.sampled_from(DIALECTS), seed=st.integers(0, 2**32))
@settings(max_examples=examples(275), deadline=None)
def test_ids_and_their_text_are_read_alike(name: str, seed: int) -> None:
    """No id sequence that is allowed decodes to a text that parses differently."""
    made = decoder(name)
    ids = made.ids_of(prompt(name))
    out = list(generated(made, made.start(ids, max_new_tokens=80), random.Random(seed)))
    by_ids, _ = made.dialect.parse_ids(ids + out)
    by_text, _ = made.dialect.parse(made.dialect.tokenizer.decode(ids + out))
    assert by_ids == by_text
    assert by_ids is not None or complete(made, ids + out)


@pytest.mark.parametrize("name", DIALECTS)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=either(2, 10), deadline=None)
def test_a_prompt_may_stop_anywhere(name: str, seed: int) -> None:
    """Also in the middle of a tag: the state is that in which the model would have been."""
    made = decoder(name)
    ids = made.ids_of(prompt(name))
    state = made.start(ids)
    out = list(generated(made, made.start(ids, max_new_tokens=60), random.Random(seed), bold=0.5))
    for at, token in enumerate(out):
        begun = made.start(ids + out[:at])
        text = made.dialect.tokenizer.decode(out[:at])
        assert (made.allowed(begun) == made.allowed(state)).all(), text
        state = made.next(state, token)


@pytest.mark.parametrize(
    "text", ["<tinker", "a </ti \u00fc", "x/tin> is", "tin>\u00fc<", "<tin <ti"]
)
def test_a_prompt_may_hold_pieces_of_tags(text: str) -> None:
    """A model would not write them, but goes on after them: with the rest of a character first."""
    made = decoder("praxis")
    ids = made.ids_of(prompt("praxis")) + made.dialect.tokenizer.encode(text)
    for cut in range(2):
        before = ids[: len(ids) - cut]
        state = made.start(before, max_new_tokens=30)
        out = list(generated(made, state, random.Random(text)))
        made.dialect.tokenizer.decode_bytes(before + out).decode()


@pytest.mark.parametrize("name", [name for name in CALLERS if name in FEW])
def test_a_conversation_goes_on_behind_results(name: str) -> None:
    """Calls, results that the system puts in, and an answer: the whole of it is read as one legal
    episode.
    """
    made = decoder(name)
    d = made.dialect
    done = 0
    for seed in range(25):
        if done >= either(3, 25):
            break
        choose = random.Random(seed)
        ids, results = made.ids_of(prompt(name)), 0
        for turn in range(4):
            start, bold = made.start(ids, max_new_tokens=70), 0.5 if turn else 0.2
            ids += list(generated(made, start, choose, bold=bold))
            if d.parse_ids(ids)[0] is not None and not waits(d, ids):
                break
            results += 1
            ids += result(made, ids)
        else:
            continue
        episode, findings = d.parse_ids(ids)
        assert episode is not None
        assert not findings
        owed = trail_ids(ids[-1], d.table, d.tokenizer)
        assert d.serialize(episode) == d.tokenizer.decode(ids + owed)
        assert d.encode(episode).ids.shape
        done += bool(results)
    assert done >= 3


def state_of(d: mypt_spec.Dialect, ids: list[int]) -> tuple[list[Event], int]:
    events, _ = lex_ids(ids, d.table, d.tokenizer.decode_bytes, d.tokenizer.ordinary)
    return events, Run(d.table, d.automaton, complete=False).check(events).state


def waits(d: mypt_spec.Dialect, ids: list[int]) -> bool:
    """Whether results are due after these ids, perhaps in a block of their own."""
    state = state_of(d, ids)[1]
    then = [t for n, t in d.automaton.steps[state].items() if n != "TEXT"]
    return any(awaits_result(s, d.automaton, d.table) for s in [state, *then])


def result(made: Decoder, ids: list[int]) -> list[int]:
    """A tool's result as ids, and the header after it where the system writes one.

    Where results are in a block of their own, that one too, with a result for each call.
    """
    d = made.dialect
    out = trail_ids(ids[-1], d.table, d.tokenizer)
    events, state = state_of(d, ids)
    attrs = next((e.attrs for e in reversed(events) if e.attrs), ())
    opener = result_opener(d.automaton, d.table)
    assert opener is not None
    if "id" in opener.patterns:
        attrs = (("id", re.findall('"id": "([^"]*)"', events[-2].text)[-1]),)
    if opener.name in d.automaton.steps[state]:
        message = Message(opener.opens, (Part("text", '{"found": 3}'),), attrs)
    else:
        message = Message(d.table.turn_opener, (Part(opener.opens, '{"found": 3}'),))
    events = list(events_of([message], d.table))
    for event, new in zip(events, run_ids(events, (), d.table, d.tokenizer), strict=True):
        out += new + (trail_ids(new[-1], d.table, d.tokenizer) if event is events[-1] else [])
    return out + opening(d, ids + out)
