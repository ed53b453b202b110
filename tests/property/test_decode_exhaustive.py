"""The allow sets, whole: for every state and every id they are what the validator, and another
engine, would have.

Invariant 7: what can be generated is what validates. Two judges that share nothing with the tables:
the validator's own words (regular expressions over the text so far, the automaton, `parse_ids`),
and llguidance.
"""

from __future__ import annotations

import random
import re
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from mypt_infer.decode import Decoder
from mypt_infer.decode.compile.nfa import CALLING
from mypt_infer.decode.decoder import machine
from mypt_infer.decode.tables import DEAD_STATE
from mypt_spec.encoder import tag_ids
from mypt_spec.episode import Event
from mypt_spec.table import TEXT
from tests.support.decoding import DIALECTS, complete, decoder, prompt, witnesses


@cache
def everywhere(made: Decoder) -> dict[int, tuple[int, list[int]]]:
    """Every state that the model can be in: the grammar's state where it began, and ids that lead
    on from there.
    """
    found: dict[int, tuple[int, list[int]]] = {}
    for grammar_state, first in made.tables.start.items():
        for state, ids in witnesses(made, first).items():
            found.setdefault(state, (grammar_state, ids))
    return found


def test_most_states_can_be_reached() -> None:
    """No way leads to the others: places in a leaf that the text before it never begins with."""
    for name in DIALECTS:
        made = decoder(name)
        assert len(everywhere(made)) > 0.75 * made.tables.size


@pytest.mark.parametrize("name", DIALECTS)
def test_llguidance_has_the_same_allow_sets(name: str) -> None:
    pytest.importorskip("llguidance")
    from tests.support.guidance import allowed, matcher

    made = decoder(name)
    checked = 0
    bases = {
        g: matcher(name, g)
        for g, first in made.tables.start.items()
        if not made.tables.final[first]
    }
    for state, (grammar_state, ids) in everywhere(made).items():
        if grammar_state not in bases:
            continue
        judge = bases[grammar_state].deep_copy()  # `reset` would keep the allow set of before
        assert not ids or judge.consume_tokens(ids)
        theirs = allowed(judge, made.tables.vocabulary)
        assert not judge.is_error()
        mine = (made.tables.following(state) != DEAD_STATE)[made.tables.classes]
        assert (mine == theirs).all(), (
            made.dialect.tokenizer.decode(ids),
            np.flatnonzero(mine != theirs)[:10],
        )
        checked += 1
    assert checked > 20


# Every beginning of a character; the last byte says nothing about those before it, so one character
# in 64 is enough.
BEGINNINGS = {b""} | {
    chr(c).encode()[:n]
    for c in range(0x80, 0x110000, 64)
    if not 0xD800 <= c < 0xE000
    for n in (1, 2, 3)
    if n < len(chr(c).encode())
}


def _utf8_so_far(run: bytes) -> bool:
    """Python's incremental decoder would take the beginning of a lone surrogate."""
    try:
        run.decode()
        return True
    except UnicodeDecodeError as error:
        return run[error.start :] in BEGINNINGS


class Naive:
    """The allow set in the validator's words, for dialects whose tags are single ids without white
    space.
    """

    def __init__(self, made: Decoder) -> None:
        self.d = made.dialect
        tokenizer = self.d.tokenizer
        self.words = [
            tokenizer.decode_bytes([i]) if i in tokenizer.ordinary else b""
            for i in range(tokenizer.vocab_size)
        ]
        self.tag = re.compile("|".join(re.escape(t) for t in self.d.table.special).encode())
        self.names = {
            self.d.table.special[t.shown]: t.name for t in self.d.table.terminals.values()
        }
        self.seen: dict[bytes, npt.NDArray[np.bool_]] = {}

    def text(self, before: bytes) -> npt.NDArray[np.bool_]:
        """Which ordinary ids can follow some text of one run: together they spell no tag, and are
        UTF-8 as far as they go.
        """
        if before not in self.seen:
            out = np.zeros(len(self.words), bool)
            for i, word in enumerate(self.words):
                run = before + word
                out[i] = word and self.tag.search(run) is None and _utf8_so_far(run)
            self.seen[before] = out
        return self.seen[before]

    def row(self, state: int, ids: list[int], size: int) -> npt.NDArray[np.bool_]:
        run = b""
        for i in ids:
            if i in self.names:
                state, run = self.d.automaton.steps[state][self.names[i]], b""
            else:
                state, run = self.d.automaton.steps[state][TEXT], run + self.words[i]
        out = np.zeros(size, bool)
        legal = self.d.automaton.allowed(state)
        inner = [t for t in self.open(state) if not self.d.table.openers[t].body_loss]
        if TEXT in legal and not inner:
            out[: len(self.words)] = self.text(run)
        whole = run.decode("utf-8", "ignore").encode() == run
        for i, name in self.names.items():
            out[i] = whole and name in legal and self.d.table.terminals[name].origin == "model"
        return out

    def open(self, state: int) -> tuple[str, ...]:
        from mypt_spec.states import open_blocks

        return open_blocks(self.d.automaton, self.d.table)[state]


def compare_with_validator(made: Decoder) -> None:
    """Every state and every id; bodies of calls are left out: the validator takes any tool there."""
    naive = Naive(made)
    checked = 0
    for state, (grammar_state, ids) in everywhere(made).items():
        if made.tables.block[state] == CALLING:
            continue
        mine = (made.tables.following(state) != DEAD_STATE)[made.tables.classes]
        theirs = naive.row(grammar_state, ids, made.tables.vocabulary)
        assert (mine == theirs).all(), (ids, np.flatnonzero(mine != theirs)[:10])
        checked += 1
    assert checked > 50


@pytest.mark.parametrize("name", ["mypt", "gabgpt"])
def test_the_validator_has_the_same_allow_sets(name: str) -> None:
    compare_with_validator(decoder(name))


@pytest.mark.parametrize("name", DIALECTS)
def test_parse_ids_agrees_with_a_sample(name: str) -> None:
    """An allowed id can be completed, and `parse_ids` takes it.

    No completion known makes a refused id legal.

    Refusals are checked in texts and between tags: in calls, and their names, the validator takes
    any tool.
    """
    made = decoder(name)
    d, tables = made.dialect, made.tables
    choose = random.Random(name)
    before = made.ids_of(prompt(name))
    states = witnesses(made, made.tables.start[_grammar_state(made, before)])
    ends = {tuple(shortest(made, s)) for s in choose.sample(sorted(states), 25)} | {()}
    ends |= {tuple(tag_ids(Event(t.name, t.spell()), d.table, d.tokenizer, trail=False)) + tuple(e) for t in d.table.terminals.values() if t.origin == "model" and not t.patterns for e in list(ends)[:3]}  # fmt: skip
    legal = refused = 0
    for state in choose.choices(sorted(states), k=200):
        following = tables.following(state)[tables.classes]
        tags = list(d.tokenizer.special.values()) or [50256]
        for token in (
            choose.sample(list(d.tokenizer.ordinary), 2)
            + choose.choices(tags, k=2)
            + choose.choices(np.flatnonzero(following).tolist() or [0], k=2)
        ):
            ids = [*before, *states[state], token]
            if following[token] != DEAD_STATE:
                whole = ids + shortest(made, int(following[token]))
                if '"id": ""' in d.tokenizer.decode(whole):
                    continue  # which the tables cannot see: `call_ids` refuses it, see test_lists
                assert complete(made, whole), d.tokenizer.decode(ids)
                legal += 1
            elif (
                states[state]
                and (tables.frame[state] or state in tables.start.values())
                and tables.block[state] != CALLING
                and not _system(made, token)
            ):
                assert not any(complete(made, ids + list(end)) for end in ends), d.tokenizer.decode(
                    ids
                )
                refused += 1
    assert legal > 150
    assert refused > 5


def _system(made: Decoder, token: int) -> bool:
    """Whether an id begins a tag that the system writes: legal, but not for a model."""
    spellings = [
        (t.origin, p.value)
        for t in made.dialect.table.terminals.values()
        for p in t.spelling
        if p.kind == "special"
    ]
    return token in {made.dialect.table.special[v] for origin, v in spellings if origin != "model"}


def _grammar_state(made: Decoder, ids: list[int]) -> int:
    first = machine(made.start(ids))
    return next(g for g, s in made.tables.start.items() if s == first)


def shortest(made: Decoder, state: int) -> list[int]:
    """Ids that lead to the nearest ending."""
    tables, out = made.tables, []
    while not tables.final[state]:
        following = tables.following(state)[tables.classes]
        out.append(int(tables.distance[following].argmin()))
        state = int(following[out[-1]])
    return out
