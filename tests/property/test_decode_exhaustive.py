"""The allow sets, whole: for every state and every id they are what the validator, and another
engine, would have.

Invariant 7: what can be generated is what validates. Two judges that share nothing with the tables:
the validator's own words (regular expressions over the text so far, the automaton, `parse_ids`),
and llguidance.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from mypt_infer.decode import Decoder
from mypt_infer.decode.compile import build_tables, call_graph
from mypt_infer.decode.compile.nfa import CALLING
from mypt_infer.decode.compile.tables import DEAD_STATE, Tables
from mypt_infer.decode.decoder import machine
from mypt_spec.damage.cut_tags import fragment, inner_tags
from mypt_spec.damage.near_miss import near_miss
from mypt_spec.encoder import tag_ids
from mypt_spec.episode import Event
from mypt_spec.memo import Memo
from tests.support.allow_sets import check_allow_sets, everywhere
from tests.support.decoding import DIALECTS, TOOLS, complete, decoder, prompt, witnesses
from tests.support.dialects import FEW
from tests.support.examples import either

EACH = either(6, 1)  # of the states, the other engine judges one in so many


@pytest.mark.parametrize("name", FEW)
def test_llguidance_has_the_same_allow_sets(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With arguments in the schema's order, the only one of llguidance."""
    pytest.importorskip("llguidance")
    from tests.support.guidance import allowed, matcher

    monkeypatch.setattr(call_graph, "_SETS", 0)
    monkeypatch.setattr(build_tables, "_built", Memo[tuple[str, str], Tables](32))
    made = Decoder(name, TOOLS, engine="table")
    tables, checked = made.tables, 0
    # No way leads to the other states: places in a leaf that the text before it never begins with.
    assert len(everywhere(made)) > 0.75 * tables.size
    bases = {g: matcher(name, g) for g, first in tables.start.items() if not tables.final[first]}
    for number, (state, (grammar_state, ids)) in enumerate(everywhere(made).items()):
        if grammar_state not in bases or number % EACH:
            continue
        judge = bases[grammar_state].deep_copy()  # `reset` would keep the allow set of before
        assert not ids or judge.consume_tokens(ids)
        theirs = allowed(judge, tables.vocabulary)
        assert not judge.is_error()
        mine = (tables.following(state) != DEAD_STATE)[tables.classes]
        assert (mine == theirs).all(), (
            made.dialect.tokenizer.decode(ids),
            np.flatnonzero(mine != theirs)[:10],
        )
        checked += 1
    assert checked > either(4, 20)


@pytest.mark.parametrize("name", ["mypt", "gabgpt"])
def test_the_validator_has_the_same_allow_sets(name: str) -> None:
    check_allow_sets(decoder(name))


@pytest.mark.parametrize("name", DIALECTS)
def test_parse_ids_agrees_with_a_sample(name: str) -> None:
    """An allowed id can be completed, and `parse_ids` takes it.

    No completion known makes a refused id legal.

    Refusals are checked in texts and between tags: in calls, and their names, the validator takes
    any tool.
    """
    made, choose = decoder(name), random.Random(name)
    d, tables = made.dialect, made.tables
    before = made.ids_of(prompt(name))
    first = machine(made.start(before))
    states = witnesses(made, first)
    ends = {tuple(shortest(made, s)) for s in choose.sample(sorted(states), either(5, 25))} | {()}
    ends |= {tuple(tag_ids(Event(t.name, t.spell()), d.table, d.tokenizer, trail=False)) + tuple(e) for t in d.table.terminals.values() if t.origin == "model" and not t.patterns for e in list(ends)[:3]}  # fmt: skip
    system = {
        d.table.special[piece.value]
        for t in d.table.terminals.values()
        if t.origin != "model"
        for piece in t.spelling
        if piece.kind == "special"
    }  # begins of tags that are legal, but not for a model
    tags = list(d.tokenizer.special.values()) or [50256]
    legal = refused = 0
    starts = set(tables.start.values())
    framed = [s for s in sorted(states) if states[s] and (tables.frame[s] or s in starts)]
    outside = [state for state in framed if tables.block[state] != CALLING]
    some = choose.choices(sorted(states), k=either(25, 190)) + choose.choices(outside, k=10)
    for state in some:
        following = tables.following(state)[tables.classes]
        tokens = choose.sample(list(d.tokenizer.ordinary), 2) + choose.choices(tags, k=2)
        for token in tokens + choose.choices(np.flatnonzero(following).tolist() or [0], k=2):
            ids = [*before, *states[state], token]
            if following[token] != DEAD_STATE:
                whole = ids + shortest(made, int(following[token]))
                if '"id": ""' in d.tokenizer.decode(whole):
                    continue  # which the tables cannot see: `call_ids` refuses it, see test_lists
                assert complete(made, whole), d.tokenizer.decode(ids)
                legal += 1
            elif state in outside and token not in system:
                assert _begins_a_tag(made, ids) or not any(
                    complete(made, ids + list(end)) for end in ends
                ), d.tokenizer.decode(ids)
                refused += 1
    assert legal > either(20, 150)
    # Most tags of some formats are the system's; those of a model of mistral may follow any text.
    assert refused >= either(0, int(name != "mistral"))


def _begins_a_tag(made: Decoder, ids: list[int]) -> bool:
    """Whether the last id spells a part of a tag of text, which must then go on as that tag, or
    without attributes as a longer word of ASCII."""
    d = made.dialect
    if ids[-1] not in d.tokenizer.ordinary:
        return False
    text, inner = d.tokenizer.decode(ids), inner_tags(d.table, d.automaton)
    starts = range(len(d.tokenizer.decode(ids[:-1])), len(text) + 1)
    if d.table.attributed and any(near_miss(text[:end] + ">", d.table) for end in starts):
        return True
    return any(fragment(text[:end], inner) is not None for end in starts)


def shortest(made: Decoder, state: int) -> list[int]:
    """Ids that lead to the nearest ending."""
    tables, out = made.tables, list[int]()
    while not tables.final[state]:
        following = tables.following(state)[tables.classes]
        out.append(int(tables.distance[following].argmin()))
        state = int(following[out[-1]])
    return out
