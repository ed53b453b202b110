"""Blocks that the model may not open: nothing else is refused with them, and every promise holds
without them.
"""

from __future__ import annotations

import random
import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import mypt_spec
from mypt_infer.decode import Decoder
from mypt_infer.decode.base import vocab
from mypt_infer.decode.compile import build_tables
from mypt_infer.decode.decoder import machine
from mypt_infer.run_format import format_of
from mypt_spec.memo import Memo
from tests.support.decoding import DIALECTS, TOOLS, complete, decoder, generated, prompt, witnesses
from tests.support.examples import either

ASKED = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
THINKERS = [n for n in DIALECTS if format_of(n).thinking]


def silent(name: str, **options: Any) -> Decoder:
    """A decoder that forbids thoughts."""
    return Decoder(name, TOOLS, forbidden_blocks=format_of(name).thinking, **options)


def openers(decoder: Decoder) -> set[int]:
    """The ids in the tags that begin a thought."""
    table, tokenizer = decoder.dialect.table, decoder.dialect.tokenizer
    pieces = {p for k in format_of(decoder.dialect).thinking for p in table.openers[k].spelling}
    words = [p.value.encode() for p in pieces if p.kind == "text"]
    return {table.special[p.value] for p in pieces if p.kind == "special"} | {
        i
        for i in tokenizer.ordinary
        if any(w.startswith(tokenizer.decode_bytes([i])) for w in words)
    }


def test_which_dialects_think() -> None:
    thinkers = {name for name in mypt_spec.dialects() if format_of(name).thinking}
    assert thinkers == {"mypt", "gabgpt", "usf-omega", "harmony", "qwen3", "mistral-v13"}
    assert format_of("usf-omega").thinking == {"reasoning", "self_reflection"}
    assert silent("praxis").forbidden_blocks == frozenset()


@pytest.mark.parametrize("name", THINKERS)
def test_in_every_state_only_the_opening_tag_is_refused(name: str) -> None:
    """Both decoders on the same ids: what one refuses more than the other begins a thought."""
    made, free = silent(name), decoder(name)
    first, other = made.start(prompt(name)), free.start(prompt(name))
    missed, begin = 0, openers(made)
    ways = list(witnesses(made, machine(first)).values())
    for ids in either([*ways[:150], *ways[150 :: 1 + len(ways) // 150]], ways):  # nearest first
        if '"id": ""' in made.dialect.tokenizer.decode(ids):
            continue  # the tables hold it; an id of a call is not empty
        mine, all_ = made.allowed(made.run(first, ids)), free.allowed(free.run(other, ids))
        assert not (mine & ~all_).any()
        more = set(np.flatnonzero(all_ & ~mine).tolist())
        assert more <= begin or (made.dialect.table.history.last and begin & {*ids})
        missed += bool(more)
    assert missed


@pytest.mark.parametrize("engine", ["table", "llguidance"])
@pytest.mark.parametrize("name", THINKERS)
def test_every_budget_ends_legal_without_a_thought(name: str, engine: str) -> None:
    if engine == "llguidance":
        pytest.importorskip("llguidance")
    made = silent(name, engine=engine, max_think_tokens=1)
    before = made.ids_of(prompt(name))
    least = made.minimum(made.start(before))
    tables = either([*range(least, least + 8), 25, 39], range(least, 40))
    for budget in tables if engine == "table" else range(least, least + 3):
        state, ids = made.start(before, max_new_tokens=budget), list[int]()
        choose = random.Random(f"{name} {budget}")
        if engine == "table":
            ids = list(generated(made, state, choose, bold=0.7))
        else:
            while not made.final(state):
                ids.append(int(choose.choice(made.ids(state)[-40:])))
                state = made.next(state, ids[-1])
        assert len(ids) <= budget
        assert complete(made, before + ids)
        thoughts = {made.dialect.table.openers[k].name for k in made.forbidden_blocks}
        names = [event.terminal for event in made.dialect.lex_ids(before + ids)[0]]
        after = {then for name, then in pairwise(names) if name in thoughts}
        assert after <= ({"THINK_CLOSE"} if made.dialect.table.history.last else set())


@pytest.mark.parametrize(("name", "prompted"), [("qwen3", False), ("qwen3.5", True)])
def test_a_thought_stays_empty_where_data_has_empty_ones(name: str, prompted: bool) -> None:
    """Forbidding the tags as well, a model would have to write what it never saw in its data."""
    d = mypt_spec.dialect(name)
    made = Decoder(d, forbidden_blocks=["think"])
    ids: list[int] = []
    for part in re.split(r"(<[^>]+>)", f"{ASKED}<think>\n"):
        ids += [d.table.special[part]] if part[:1] == "<" else d.tokenizer.encode(part)
    state = made.start(ids if prompted else ids[:-2])
    state = state if prompted else made.run(state, ids[-2:])
    (line,) = made.ids(state).tolist()
    assert made.ids(made.next(state, line)).tolist() == [d.table.special["</think>"]]


def test_a_thought_that_is_open_is_finished() -> None:
    made = silent("mypt")
    ids = [*made.ids_of(prompt("mypt")), 50261, 50271, *made.dialect.tokenizer.encode("Hm")]
    state = made.start(ids, max_new_tokens=12)
    assert made.ids(made.next(state, 50272)).tolist()
    new = list(generated(made, state, random.Random(0)))
    assert complete(made, ids + new)
    assert 50272 in new


@pytest.mark.parametrize(
    ("forbidden_blocks", "says"),
    [(["thought"], "'thought', which is not a block of mypt: system, user, assistant"), ("think", "a list of kinds"), (["assistant"], "no turn can be ended without assistant")],
)  # fmt: skip
def test_what_cannot_be_forbidden(forbidden_blocks: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Decoder("mypt", forbidden_blocks=forbidden_blocks)


def test_bars_can_be_set_anew() -> None:
    made = Decoder("mypt", TOOLS, max_think_tokens=5, max_toolcall_tokens=64)
    other = made.forbidding(["think", "cite"])
    assert other.forbidden_blocks == {"think", "cite"}
    assert other.caps.tolist() == made.caps.tolist()
    state = other.next(other.start(prompt("mypt")), 50261)
    assert [i for i in other.ids(state).tolist() if i > 50256] == [50267]
    assert other.forbidding([]).tables is made.tables
    assert Decoder("mypt", forbidden_blocks=["toolcall"]).tables is Decoder("mypt").tables, (
        "there are no calls anyway"
    )
    mute = Decoder("mypt", TOOLS, forbidden_blocks=["toolcall"])
    assert not mute.allowed(mute.next(mute.start(prompt("mypt")), 50261))[50267]


@pytest.mark.parametrize("kind", ["message", "reasoning"])
def test_a_way_round_is_enough(kind: str) -> None:
    """In usf-omega one may call without a message; without tools, there is nothing else to say."""
    assert Decoder("usf-omega", TOOLS, forbidden_blocks=[kind]).start(prompt("usf-omega"))
    if kind == "message":
        with pytest.raises(ValueError, match="without message"):
            Decoder("usf-omega", forbidden_blocks=[kind])


def test_the_first_decoder_of_a_process_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What graphs of a dialect share does not depend on the tools of the first one."""
    monkeypatch.setattr(build_tables, "_built", Memo[Any, Any](16))
    for memo in vocab._memos:
        memo.forget(mypt_spec.dialect("praxis").fingerprint)
    plain = Decoder("praxis")
    made = Decoder("praxis", TOOLS)
    state = made.start(prompt("praxis"))
    for token in plain.dialect.tokenizer.encode("<tin>\n"):
        state = made.next(state, token)
    assert made.calling(state)
