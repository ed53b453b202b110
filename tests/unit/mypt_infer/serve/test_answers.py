"""Why an answer ended, as clients are told."""

from __future__ import annotations

import re

import pytest

import mypt_spec
from mypt_infer.run_format import format_of
from mypt_infer.serve.answers import ChatAnswer
from mypt_infer.serve.asked.names import Names
from mypt_infer.serve.asked.prompts import Prompter
from mypt_infer.serve.jobs import Ended, NewIds
from mypt_spec import Dialect
from tests.support.vocabulary import small

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


def test_an_answer_of_one_call_has_no_beginning_of_another() -> None:
    d = small("kimi-k2")
    call = (
        '<|tool_call_begin|>functions.f:{}<|tool_call_argument_begin|>{{"x": 1}}<|tool_call_end|>'
    )
    text = "<|tool_calls_section_begin|>" + "".join(call.format(n) for n in range(2))
    head = [{"role": "user", "content": "?"}]
    prompt = Prompter(d, "kimi-k2").prompt(head, ()).ids
    ids = _ids(d, text)
    answer = ChatAnswer(format_of(d), prompt, Names(()), (), single=True)
    answer.take(NewIds(ids, []))
    assert len(answer.choice()["message"]["tool_calls"]) == 1


def _ids(d: Dialect, text: str) -> list[int]:
    pieces = re.split(r"(<\|\w+\|>)", text)
    special, encode = d.tokenizer.special, d.tokenizer.encode
    return [i for p in pieces for i in ([special[p]] if p in special else encode(p))]
