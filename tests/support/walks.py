"""Let random models answer within budgets, in a format with tools, on a small vocabulary."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import count
from typing import NamedTuple

from mypt_infer.decode import Decoder
from mypt_infer.run_format import format_of
from mypt_infer.serve.asked.prompts import Prompter
from mypt_spec.bodies.json_body import Call
from mypt_spec.lexer import lex_ids
from mypt_spec.states import calling_blocks
from mypt_spec.validator import Run
from tests.support import vocabulary
from tests.support.build import function, user
from tests.support.decoding import calls_in, complete, generated
from tests.support.families import ALL

TOOLS = [
    function("search", {"query": {"type": "string"}, "top_k": {"type": "integer"}}, required=["query"]),
    function("set_kind", {"kind": {"enum": ["note", "notes"]}, "exact": {"type": "boolean"}}, required=["exact"]),
    function("list_docs", {}),
]  # fmt: skip
SCHEMAS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
THINK = (None, 1, 6)  # budgets of thoughts
SPARE = 64  # so many budgets of answers, from the least on


def in_order(arguments: Iterable[str]) -> list[str]:
    """Returns the names of arguments in the order of their schema, which is one for all tools."""
    order = [name for schema in SCHEMAS.values() for name in schema["properties"]]
    return sorted(arguments, key=order.index)


class Walk(NamedTuple):
    """The ids of a prompt and of an answer, the calls in it, and the most ids that it may have."""

    prompt: list[int]
    ids: list[int]
    calls: list[Call]
    most: int


@cache
def decoder(name: str, think: int | None = None) -> Decoder:
    return Decoder(vocabulary.small(name), TOOLS, max_think_tokens=think)


@cache
def prompt(name: str) -> list[int]:
    """Returns the ids of a question, after a system prompt where the format needs one."""
    prompter = Prompter(decoder(name).dialect, name)
    tools = TOOLS if name not in ALL or ALL[name].declares else []
    try:
        return prompter.prompt([user("Hi")], tools).ids
    except ValueError:
        return prompter.prompt([{"role": "system", "content": "S"}, user("Hi")], tools).ids


@cache
def opening(name: str) -> list[int]:
    """Returns the ids up to the tag of calls if it is text: no random model writes as much."""
    d, special = decoder(name).dialect, decoder(name).dialect.table.special
    tags = [
        t for kind in calling_blocks(d.table) if (t := d.table.openers[kind]) in d.table.plain_tags
    ]
    tags = [t for t in tags if t.led and not t.patterns]
    thought = [*d.tokenizer.encode("H"), special.get("</think>", -1)]
    thought *= prompt(name)[-1] == special.get("<think>") and bool(tags)
    return thought + [i for t in tags for i in d.tokenizer.encode(t.bare)]


def walks(name: str) -> Iterator[Walk]:
    """Yields walks without end: budgets of answers from the least on, and those of thoughts in turn."""
    ids = prompt(name)
    for number in count():
        made = decoder(name, THINK[number % len(THINK)])
        begun, least = opening(name) if number % 2 else [], made.start(ids)
        for i in begun:
            least = made.next(least, i)
        most = len(begun) + made.minimum(least) + number % SPARE
        state = made.start(ids, max_new_tokens=most)
        for i in begun:
            state = made.next(state, i)
        answer = [*begun, *generated(made, state, random.Random(f"{name} {number}"))]
        yield Walk(ids, answer, [*calls_in(made, ids + answer)], most)


def ends(made: Decoder, ids: list[int]) -> bool:
    """Whether a conversation may stop after ids: it is complete, or its model ended the turn as one ends
    that others follow (`<|im_end|>` of olmo3, where the last turn has `<|endoftext|>`).
    """
    d, made_for = made.dialect, format_of(made.dialect)
    earlier = d.table.terminals.get(made_for.earlier)
    if earlier is None or not earlier.by_model or complete(made, ids):
        return complete(made, ids)
    events, broken = lex_ids(ids, d.table, d.tokenizer.decode_bytes, d.tokenizer.ordinary)
    outcome = Run(d.table, d.automaton, spaces=False, complete=False).check(events)
    return not broken and not outcome.findings and outcome.state in made_for.between
