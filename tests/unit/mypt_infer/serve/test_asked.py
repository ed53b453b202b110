"""What a request asks, before any model: parameters, and the key of its decoder."""

from __future__ import annotations

from typing import Any

import pytest

import mypt_spec
from mypt_infer.decode import Response
from mypt_infer.serve.asked.decoders import Choice, Recipe
from mypt_infer.serve.asked.errors import ApiError
from mypt_infer.serve.asked.parameters import Chat, read
from mypt_infer.serve.asked.prompts import Prompter
from tests.support.build import user

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("find", "read")]
REQUEST = {"model": "tiny", "messages": []}


def test_requests_that_ask_for_other_things_share_no_decoder() -> None:
    asked = [
        Recipe(TOOLS, Choice()),
        Recipe(TOOLS[:1], Choice()),
        Recipe(TOOLS, Choice("none")),
        Recipe(TOOLS, Choice("required")),
        Recipe(TOOLS, Choice("required", "find")),
        Recipe(TOOLS, Choice("required", "read")),
        Recipe(TOOLS, Choice(), Response(schema={"type": "object"})),
        Recipe(TOOLS, Choice(), Response(schema={"type": "string"})),
        Recipe(TOOLS, Choice(), think=False),
    ]
    assert len({wanted.key for wanted in asked}) == len(asked)
    assert Recipe(list(TOOLS), Choice()).key == asked[0].key


@pytest.mark.parametrize(
    ("name", "neutral", "other"),
    [("store", False, 0), ("frequency_penalty", 0, False), ("presence_penalty", 0.0, 1)],
)
def test_a_number_is_no_truth_value(name: str, neutral: Any, other: Any) -> None:
    read(Chat, REQUEST | {name: neutral})
    with pytest.raises(ApiError, match=f"{name} is not supported"):
        read(Chat, REQUEST | {name: other})


def test_an_effort_that_is_refused_says_what_to_do() -> None:
    for effort in ({"reasoning_effort": "high"}, {"reasoning": {"effort": "low"}}):
        with pytest.raises(ApiError, match=r"enum value '\w+'; only 'none' is taken: leave it out"):
            read(Chat, REQUEST | effort)


@pytest.mark.parametrize(
    ("name", "questions", "hint"), [("mypt", 1, True), ("qwen3", 2, False), ("llama3", 2, False)]
)
def test_only_a_question_at_the_beginning_may_lack_a_system_message(
    name: str, questions: int, hint: bool
) -> None:
    with pytest.raises(ApiError) as error:
        Prompter(mypt_spec.dialect(name), name).prompt(
            [{"role": "user", "content": "u"}] * questions, []
        )
    assert ("is a system message missing?" in str(error.value)) == hint


def test_messages_are_named_by_the_numbers_of_the_client() -> None:
    """A format that begins with a system prompt of its own has one message more."""
    prompter = Prompter(mypt_spec.dialect("smollm2"), "smollm2")
    with pytest.raises(ApiError, match=r"at /messages/1/role; expected <\|im_start\|>assistant"):
        prompter.prompt([user("a"), user("b")], ())
