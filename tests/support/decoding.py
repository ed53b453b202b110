"""What the tests of decoding share: prompts of every dialect, tools, and models that choose badly."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

import numpy as np
import numpy.typing as npt

import mypt_spec
from mypt_infer.decode import Decoder
from mypt_infer.decode.compile.nfa import CALLING
from mypt_infer.decode.decoder import machine
from mypt_infer.decode.tables import DEAD_STATE
from mypt_infer.run_format import format_of
from mypt_spec.episode import Episode, Message, Part
from mypt_spec.lexer import lex_ids
from mypt_spec.parser import messages_of
from mypt_spec.states import calling_blocks
from mypt_spec.validator import Run
from tests.support.dialects import DIALECTS

# The dialects with calls of tools.
CALLERS = [n for n in DIALECTS if calling_blocks(mypt_spec.dialect(n).table)]
TOOLS = (
    {
        "type": "function",
        "function": {
            "name": "search",
            "description": "Find documents.",
            "parameters": {
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "what to look for"},
                    "top_k": {"type": "integer"},
                    "min_score": {"type": "number"},
                    "exact": {"type": "boolean"},
                    "kind": {"enum": ["note", "notes", 1, 10, None]},
                },
                "required": ["query"],
            },
        },
    },
    {"name": "search_all", "parameters": {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": ["string", "integer", "null"]}}, "where": {"type": "object", "properties": {"day": {"type": "integer"}, "month": {"type": "integer"}}, "required": ["month"]}, "name": {"type": "null"}}, "required": ["where"]}},
    {"name": "list_docs", "parameters": {"type": "object", "properties": {}}},
)  # fmt: skip


def said(role: str, text: str = "Hi") -> Message:
    return Message(role, (Part("text", text),))


@cache
def prompt(name: str) -> Episode:
    """The shortest prompt of a dialect."""
    first = {"mypt": (said("system", "You are MyPT."),)}
    begins = tuple(Message(mark.lower()) for mark in format_of(name).begins)
    return Episode(name, (*begins, *first.get(name, ()), said("user")))


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


def witnesses(made: Decoder, first: int) -> dict[int, list[int]]:
    """Every state of the machine that the model can reach from a state, with the shortest ids that
    lead there.
    """
    found: dict[int, list[int]] = {first: []}
    queue = [first]
    # One id a class; some classes have none.
    classes, ids = np.unique(made.tables.classes, return_index=True)
    for state in queue:
        following = made.tables.following(state)[classes]
        for then, at in zip(*np.unique(following, return_index=True), strict=True):
            if then != DEAD_STATE and int(then) not in found:
                found[int(then)] = [*found[state], int(ids[at])]
                queue.append(int(then))
    return found


@cache
def to_call(made: Decoder) -> npt.NDArray[np.int32]:
    """Tokens from each state to the body of a call."""
    return made.tables.measure(made.tables.block == CALLING)


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


def complete(made: Decoder, ids: list[int]) -> bool:
    """Whether ids are a complete episode, or legal up to where the system must write a result."""
    d = made.dialect
    episode, findings = d.parse_ids(ids)
    if episode is not None:
        said = [f for f in findings if f.severity != "info"]
        # Text that is almost a tag is legal, but a tag that was cut short is not.
        return not said and not [f for f in d.validate(episode) if f.code == "MYP801"]
    events, broken = lex_ids(ids, d.table, d.tokenizer.decode_bytes, d.tokenizer.ordinary)
    outcome = Run(d.table, d.automaton, spaces=False, complete=False).check(events)
    if (
        broken
        or outcome.findings
        or any(e.spaced for e in outcome.events)
        or messages_of(outcome.events, d.table)[1]
    ):
        return False
    openers = [d.table.terminals[n] for n in d.automaton.allowed(outcome.state) if n != "TEXT"]
    results = [
        t
        for t in openers
        if t.origin != "model" and t.opens != d.table.turn_opener and not t.body_loss
    ]
    return bool(results)
