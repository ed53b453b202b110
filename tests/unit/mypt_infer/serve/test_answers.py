"""Why an answer ended, as clients are told."""

from __future__ import annotations

import pytest

import mypt_spec
from mypt_infer.run_format import format_of
from mypt_infer.serve.answers import ChatAnswer
from mypt_infer.serve.asked.names import Names
from mypt_infer.serve.jobs import Ended, NewIds

CALL = '{"name": "f", "x": 1}'


@pytest.mark.parametrize(
    ("calls", "cut", "reason"),
    [
        (True, False, "tool_calls"),
        (True, True, "length"),  # its arguments may be shorter than the model meant
        (False, False, "stop"),
        (False, True, "length"),
    ],
)
def test_a_budget_that_cut_the_answer_is_the_reason(calls: bool, cut: bool, reason: str) -> None:
    tokens = mypt_spec.dialect("mypt").tokenizer
    special = tokens.special
    prompt = [special["<myPT_user>"], *tokens.encode("Hi"), special["</myPT_user>"]]
    answer = ChatAnswer(format_of("mypt"), [*prompt, special["<myPT_assistant>"]], Names([]))
    ids = tokens.encode("Yo")
    if calls:
        ids = [special["<myPT_toolcall>"], *tokens.encode(CALL), special["</myPT_toolcall>"]]
    answer.take(NewIds(ids, []))
    answer.take(Ended(cut))
    choice = answer.choice()
    assert choice["finish_reason"] == reason
    assert len(choice["message"].get("tool_calls", [])) == calls
