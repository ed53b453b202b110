"""What the tests of decoding share: prompts of every dialect, tools, and models that choose badly."""

from __future__ import annotations

import random
import re
from collections.abc import Container, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

import mypt_infer.decode.guided  # noqa: F401  # its memos, too
import mypt_spec
from mypt_infer.decode import Decoder
from mypt_infer.decode.base import vocab
from mypt_infer.decode.compile import build_tables
from mypt_infer.decode.compile.nfa import CALLING
from mypt_infer.decode.compile.tables import DEAD_STATE
from mypt_infer.decode.decoder import machine
from mypt_infer.decode.llguidance import grammar
from mypt_infer.run_format import format_of
from mypt_spec.bodies.json_body import Call, calls_of
from mypt_spec.episode import Episode, Message, Part
from mypt_spec.lexer import lex_ids
from mypt_spec.parser import messages_of
from mypt_spec.states import calling_blocks
from mypt_spec.validator import Run
from tests.support.build import function
from tests.support.dialects import DIALECTS

# A run of tests has more dialects and vocabularies than a server, and compiles each of them once.
for _memo in (*vocab._memos, build_tables._built, grammar._words):
    _memo._limit = 64
build_tables._built._room, grammar._words._room = 256 << 20, 1 << 30
# The dialects with calls of tools.
CALLERS = [n for n in DIALECTS if calling_blocks(mypt_spec.dialect(n).table)]
# fmt: off
SEARCH = {
    "query": {"type": "string", "description": "what to look for"},
    "top_k": {"type": "integer"},
    "min_score": {"type": "number"},
    "exact": {"type": "boolean"},
    "kind": {"enum": ["note", "notes", 1, 10, None]},
}
DAY = {"type": "object", "properties": {"day": {"type": "integer"}, "month": {"type": "integer"}}, "required": ["month"]}
TAGS = {"type": "array", "items": {"type": ["string", "integer", "null"]}}
# In the form of OpenAI, and in that of others.
TOOLS = (
    function("search", SEARCH, required=["query"]),
    {"name": "search_all", "parameters": {"type": "object", "properties": {"tags": TAGS, "where": DAY, "name": {"type": "null"}}, "required": ["where"]}},
    {"name": "list_docs", "parameters": {"type": "object", "properties": {}}},
)
# Tools that only llguidance reads, and one that tables hold, too.
PLAN = {
    "title": {"type": "string", "minLength": 3, "maxLength": 12},
    "when": {"type": "string", "pattern": "^20[0-9]{2}-(0[1-9]|1[0-2])$"},
    "count": {"type": "integer", "minimum": 3, "maximum": 700},
    "who": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"], "additionalProperties": False}]},
}
NODE = {"type": "object", "properties": {"label": {"type": "string"}, "below": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 3}}, "required": ["label"]}
GROW = {"root": {"$ref": "#/$defs/node"}, "notes": {"type": "object", "additionalProperties": {"type": "integer"}}}
GUIDED_TOOLS = (
    {"name": "plan", "parameters": {"type": "object", "properties": PLAN, "required": ["title", "when"]}},
    {"name": "grow", "parameters": {"type": "object", "properties": GROW, "required": ["root"], "$defs": {"node": NODE}}},
    TOOLS[2],
)
# fmt: on
# <myPT_assistant><myPT_toolcall>, and </myPT_toolcall>.
CALL, CALL_END = (50261, 50267), 50268


def requiring(name: str = "t", /, **properties: Any) -> dict[str, Any]:
    """Returns a tool whose arguments are all required."""
    return function(name, properties, required=[*properties])


def message(role: str, text: str = "Hi") -> Message:
    return Message(role, (Part("text", text),))


@cache
def prompt(name: str) -> Episode:
    """The shortest prompt of a dialect."""
    first = {"mypt": (message("system", "You are MyPT."),)}
    begins = tuple(Message(mark.lower()) for mark in format_of(name).begins)
    return Episode(name, (*begins, *first.get(name, ()), message("user")))


@cache
def decoder(
    name: str,
    *,
    tools: bool = True,
    think: int | None = None,
    call: int | None = None,
    engine: str = "table",
) -> Decoder:
    return Decoder(
        name,
        TOOLS if tools else (),
        max_think_tokens=think,
        max_toolcall_tokens=call,
        engine=engine,
    )


@cache
def guided_decoder(name: str) -> Decoder:
    """A decoder of tools that only llguidance reads."""
    return Decoder(name, GUIDED_TOOLS, engine="auto")


def witnesses(
    decoder: Decoder, first: int, known: Container[int] = frozenset()
) -> dict[int, list[int]]:
    """Every state of the machine that the model can reach from a state, with the shortest ids that
    lead there; without the `known` ones, and those behind them.
    """
    shortest: dict[int, list[int]] = {first: []}
    queue = [first]
    # One id a class; some classes have none.
    classes, ids = np.unique(decoder.tables.classes, return_index=True)
    for state in queue:
        following = decoder.tables.following(state)[classes]
        for then, at in zip(*np.unique(following, return_index=True), strict=True):
            if then != DEAD_STATE and int(then) not in shortest and int(then) not in known:
                shortest[int(then)] = [*shortest[state], int(ids[at])]
                queue.append(int(then))
    return shortest


@cache
def to_call(made: Decoder) -> npt.NDArray[np.int32]:
    """Tokens from each state to the body of a call."""
    return made.tables.measure(made.tables.block == CALLING)


def into_call(decoder: Decoder, state: int) -> tuple[list[int], int]:
    """Returns the shortest way into the body of a call, and the state there."""
    tables, ids = decoder.tables, list[int]()
    near = tables.measure((tables.block == CALLING) | np.isin(np.arange(tables.size), [*tables.holes]))  # fmt: skip
    while machine(state) < tables.size and not decoder.calling(state):
        allowed = decoder.ids(state)
        following = tables.following(machine(state))[tables.classes[allowed]]
        ids.append(int(allowed[near[following].argmin()]))
        state = decoder.next(state, ids[-1])
    return ids, state


def in_call(decoder: Decoder, text: str = "", *, budget: int | None = None) -> int:
    """Returns the state of a decoder of mypt in a call, after the beginning of its body."""
    ids = [*CALL, *decoder.dialect.tokenizer.encode(text)]
    return decoder.run(decoder.start(prompt("mypt"), max_new_tokens=budget), ids)


def takes_body(decoder: Decoder, body: str) -> bool:
    """Whether mypt can write a call that has this body."""
    ids = [*decoder.dialect.tokenizer.encode(body), CALL_END]
    return decoder.accepts(in_call(decoder), ids) == len(ids)


def nearest(made: Decoder, state: int, ids: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Tokens from after each of some ids to the body of a call, where the tables know it."""
    near: npt.NDArray[np.int32] = to_call(made)[
        made.tables.following(machine(state))[made.tables.classes[ids]]
    ]
    return near


def distances(made: Decoder, state: int, ids: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Tokens from after each of some ids to the nearest legal ending."""
    found = made.engine.allow(machine(state))
    return found.distance[np.searchsorted(found.ids, ids)]


def generated(
    made: Decoder, state: int, choose: random.Random, *, bold: float = 0.3, limit: int = 2000
) -> Iterator[int]:
    """Ids drawn from the allow sets; with probability `bold` a tag, where one is allowed.

    One in three aims for a call.
    """
    aim = choose.random() < 0.33
    for _ in range(limit):
        if made.final(state):
            return
        ids = made.ids(state)
        assert len(ids), "no way on"
        tags = ids[np.isin(ids, list(made.dialect.tokenizer.special.values()))]
        if made.calling(state) or machine(state) >= made.tables.size:
            aim = False
        near = nearest(made, state, ids) if aim else np.array([40])
        if near.min() < 40:
            token = int(ids[near.argmin()])
        elif made.calling(state) and choose.random() < 0.2:
            token = int(ids[distances(made, state, ids).argmin()])
        else:
            token = (
                int(choose.choice(tags))
                if len(tags) and choose.random() < bold
                else int(choose.choice(ids))
            )
        yield token
        state = made.next(state, token)
    raise AssertionError("no end")


def walk(
    decoder: Decoder, state: int, choose: random.Random, *, bold: float = 0.3, limit: int = 2000
) -> list[int]:
    """Returns any allowed ids from a state to an end; with probability `bold` a tag, where possible.

    An id that turns out to have no ending is drawn again.
    """
    ids, tags = list[int](), np.array(sorted(decoder.dialect.tokenizer.special.values()))
    for _ in range(limit):
        if decoder.final(state):
            return ids
        allowed = decoder.ids(state)
        assert len(allowed), decoder.dialect.tokenizer.decode(ids)
        some = allowed[np.isin(allowed, tags)] if choose.random() < bold else allowed
        token = int(choose.choice(some if len(some) else allowed))
        if decoder.takes(state, token):
            ids.append(token)
            state = decoder.next(state, token)
    raise AssertionError("no end")


def next_tokens(
    decoder: Decoder, walks: list[Iterator[int]], states: Any, first: int, choose: random.Random
) -> list[int]:
    """Returns the next token of each walk of `generated`; a walk that is over begins again.

    `walks` and `states`, which start at `first`, are changed in place.
    """
    tokens = []
    for row, walk in enumerate(walks):
        token = next(walk, None)
        if token is None:
            walks[row], states[row] = generated(decoder, first, choose, bold=0.6), first
            token = next(walks[row])
        tokens.append(token)
    return tokens


def some_states(decoder: Decoder, seed: int, budget: int | None) -> list[int]:
    """Returns states of two drawn turns, from the first to the last."""
    choose, states = random.Random(seed), list[int]()
    for _ in range(2):
        state = decoder.start(prompt(decoder.dialect.name), max_new_tokens=budget)
        states.append(state)
        for token in islice(generated(decoder, state, choose), 12):
            if not decoder.takes(state, token):
                break
            state = decoder.next(state, token)
            states.append(state)
    return choose.sample(states, min(6, len(states)))


def calls_in(decoder: Decoder, ids: Sequence[int]) -> list[Call]:
    """Returns the calls in an episode, or in the beginning of one, as the validator reads them."""
    d = decoder.dialect
    events, _ = lex_ids(ids, d.table, d.tokenizer.decode_bytes, d.tokenizer.ordinary)
    messages, findings = messages_of(Run(d.table, d.automaton, complete=False).check(events).events, d.table)  # fmt: skip
    assert not findings, findings
    return list(calls_of(messages, d.table))


def complete(made: Decoder, ids: list[int]) -> bool:
    """Whether ids are a complete episode, or legal up to where the system must write a result.

    Zeros at the end of a fraction are not canonical, and some exponents, which is a warning.
    """
    d = made.dialect
    text = d.tokenizer.decode([i for i in ids if i in d.tokenizer.ordinary])
    ignored = {"MYP308"} if re.search(r"(\.\d+0|\de[+-]?\d+)[\s,}\]]", text + "\n") else set()
    episode, findings = d.parse_ids(ids)
    if episode is not None:
        faults = [f for f in findings if f.severity != "info" and f.code not in ignored]
        # Text that is almost a tag is legal, but a tag that was cut short is not.
        return not faults and not [f for f in d.validate(episode) if f.code == "MYP801"]
    events, broken = lex_ids(ids, d.table, d.tokenizer.decode_bytes, d.tokenizer.ordinary)
    outcome = Run(d.table, d.automaton, spaces=False, complete=False).check(events)
    if (
        broken
        or outcome.findings
        or any(e.spaced for e in outcome.events)
        or [f for f in messages_of(outcome.events, d.table)[1] if f.code not in ignored]
    ):
        return False
    openers = [d.table.terminals[n] for n in d.automaton.allowed(outcome.state) if n != "TEXT"]
    results = [
        t
        for t in openers
        if t.origin != "model" and t.opens != d.table.turn_opener and not t.body_loss
    ]
    return bool(results)
