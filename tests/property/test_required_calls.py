"""Answers that have to call: each ends with a call that fits, after a thought or not, in every budget."""

from __future__ import annotations

import random
from itertools import accumulate

import pytest

from mypt_infer.decode import BudgetError, Decoder
from mypt_infer.serve.asked.thoughts import ThoughtLimits
from mypt_spec.bodies.json_schema import misfits
from mypt_spec.states import calling_blocks
from tests.support import vocabulary
from tests.support.decoding import calls_in, generated
from tests.support.dialects import DIALECTS
from tests.support.examples import either
from tests.support.families import ALL
from tests.support.walks import SCHEMAS, TOOLS, ends, prompt

# In mistral-v11, the tag of a call has an id, which nothing constrains.
CALLERS = [
    n for n in (*DIALECTS, *ALL) if calling_blocks(vocabulary.small(n).table) and n != "mistral-v11"
]
THINKERS = (
    "glm4.5",
    "minimax-m2",
    "kimi-k2-thinking",
    "deepseek-v3.2",
)  # each begins with a thought
WALKS = either(12, 200)


@pytest.mark.parametrize("name", either(("glm4.5", "mypt"), CALLERS))
def test_answers_end_with_a_call_that_fits(name: str) -> None:
    made = Decoder(vocabulary.small(name), TOOLS, require_call=True)
    ids, choose = prompt(name), random.Random(name)
    limits, thoughts = ThoughtLimits(made), 0
    for number in range(WALKS):
        least = made.minimum(made.start(ids))
        most = least + choose.randrange(64)
        with pytest.raises(BudgetError):
            made.start(ids, max_new_tokens=least - 1)
        budget = number % 65 if number % 2 else None
        at = limits.begin(made.start(ids, max_new_tokens=most), budget or 0)
        answer: list[int] = []
        if budget is None:
            answer += generated(made, at.state, choose)
        while budget is not None and not made.final(at.state):
            answer.append(int(choose.choice(limits.decoder(at.remaining or 0).ids(at.state))))
            at = limits.next(at, answer[-1])
        assert len(answer) <= most
        calls = [*calls_in(made, ids + answer)]
        assert ends(made, ids + answer), made.dialect.tokenizer.decode(answer)
        assert calls
        assert all(misfits(call.arguments, SCHEMAS[call.name]) == [] for call in calls)
        states = accumulate(answer, made.next, initial=made.start(ids))
        thoughts += any(map(made.thinking, states))
    assert thoughts or name not in THINKERS


def test_no_empty_answers_are_before_the_call() -> None:
    made, choose = Decoder(vocabulary.small("harmony"), TOOLS, require_call=True), random.Random(1)
    ids = prompt("harmony")
    for _ in range(4):
        answer = generated(made, made.start(ids, max_new_tokens=200), choose)
        text = made.dialect.tokenizer.decode(answer)
        assert "commentary<|message|>" not in text
        assert "final<|message|>" not in text
