"""Calls whose ids are their numbers in the conversation: what the decoder lets a model write."""

from __future__ import annotations

import random

import pytest

import mypt_spec
from mypt_infer.decode import Decoder
from tests.support import vocabulary
from tests.support.build import chat, function, user
from tests.support.decoding import calls_in, complete

TOOLS = [
    function("f2", {"q": {"type": "integer"}}, required=["q"]),
    function("find.all", {"text": {"type": "string"}}),
]


def earlier(count: int) -> dict[str, object]:
    """Returns a conversation with so many calls."""
    steps = [
        message
        for i in range(count)
        for message in (
            {"role": "assistant", "tool_calls": [{"id": f"c{i}", "type": "function", "function": {"name": "f2", "arguments": {"q": i}}}]},
            {"role": "tool", "tool_call_id": f"c{i}", "content": "1"},
        )
    ]  # fmt: skip
    return chat(user("Hi"), *steps) | {"tools": TOOLS}


@pytest.mark.parametrize(
    ("count", "engine"), [(0, "table"), (9, "table"), (99, "table"), (10, "llguidance")]
)
def test_numbers_go_on_after_those_of_the_prompt(count: int, engine: str) -> None:
    d = vocabulary.small("kimi-k2")
    made = Decoder(d, TOOLS, engine=engine)
    episode, findings = d.check(earlier(count))
    assert episode is not None, findings
    special = d.tokenizer.special
    begin = [special["<|tool_calls_section_begin|>"], special["<|tool_call_begin|>"]]
    ids = [*made.ids_of(episode), *begin]
    least = made.minimum(made.start(ids))
    for number in range(3):
        state = made.start(ids, max_new_tokens=least + 8 * number)
        chance, answer = random.Random(f"{count} {number}"), list[int]()
        while not made.final(state):
            more = answer[-1:] == [special["<|tool_call_end|>"]]
            options = made.ids(state).tolist()
            answer.append(begin[1] if more and begin[1] in options else chance.choice(options))
            state = made.next(state, answer[-1])
        assert len(answer) <= least + 8 * number
        assert complete(made, ids + answer), d.tokenizer.decode(answer)
        written = [call.id for call in calls_in(made, ids + answer)]
        assert written == [str(n) for n in range(len(written))]
        assert len(written) > count


def test_budgets_end_where_a_vocabulary_has_numbers_as_tokens() -> None:
    """Tables count four digits, which may be one token: after one digit, less is left to write."""
    d = mypt_spec.dialect("kimi-k2")
    made = Decoder(d, [function("list_docs", {})])
    special = d.tokenizer.special
    begin = [special["<|tool_calls_section_begin|>"], special["<|tool_call_begin|>"]]
    ids = [*made.ids_of(d.check(chat(user("Hi")))[0]), *begin]
    least = made.minimum(made.start(ids))
    for number in range(6):
        state, chance = made.start(ids, max_new_tokens=least + number), random.Random(number)
        while not made.final(state):
            state = made.next(state, chance.choice(made.ids(state).tolist()))
