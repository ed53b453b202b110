"""What a request asks, before any model: parameters, and the key of its decoder."""

from __future__ import annotations

import json
from typing import Any

import pytest

import mypt_spec
from mypt_infer.decode import Response
from mypt_infer.generate.opened import read_prompt
from mypt_infer.serve.asked.decoders import Choice, Decoders, Recipe, choice_of
from mypt_infer.serve.asked.errors import ApiError
from mypt_infer.serve.asked.parameters import Chat, read
from mypt_infer.serve.asked.prompts import Prompter
from tests.support import vocabulary
from tests.support.build import function, user

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("find", "read")]
REQUEST = {"model": "tiny", "messages": []}


def test_requests_that_ask_for_other_things_share_no_decoder() -> None:
    asked = [
        Recipe(TOOLS, Choice()),
        Recipe(TOOLS[:1], Choice()),
        Recipe(TOOLS, Choice("none")),
        Recipe(TOOLS, Choice("required")),
        Recipe(TOOLS, Choice("required", ("find",))),
        Recipe(TOOLS, Choice("required", ("read",))),
        Recipe(TOOLS, Choice(), Response(schema={"type": "object"})),
        Recipe(TOOLS, Choice(), Response(schema={"type": "string"})),
        Recipe(TOOLS, Choice(), think=False),
    ]
    assert len({wanted.key for wanted in asked}) == len(asked)
    assert Recipe(list(TOOLS), Choice()).key == asked[0].key


def allowed(mode: str, tools: list[Any]) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


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


@pytest.mark.parametrize("history", ["official", "keep"])
@pytest.mark.parametrize("name", ["qwen3", "harmony", "glm4.5", "mypt"])
def test_thoughts_that_come_back_are_in_the_prompt_as_they_were_trained(
    name: str, history: str
) -> None:
    dialect = mypt_spec.dialect(name)
    prompter = Prompter(dialect, name, system="S", history=history)
    turns = [
        user("Hi"),
        {"role": "assistant", "reasoning_content": "Old one.", "content": "Hello."},
        user("And?"),
    ]
    answer = {"role": "assistant", "reasoning_content": "New one.", "content": "So."}
    (whole,) = dialect.trained(prompter.episode([*turns, answer], [])[0], history=history)
    trained = dialect.encode(whole).ids.tolist()
    prompt = prompter.prompt(turns, []).ids
    assert prompt == trained[: len(prompt)]
    kept = "Old one." in dialect.tokenizer.decode(prompt)
    assert kept == (history == "keep" or not dialect.table.history.drops)


@pytest.mark.parametrize("name", ["qwen3", "qwen3.5", "qwen3.5-small"])
def test_an_empty_thought_of_a_prompt_has_the_ids_of_training(name: str) -> None:
    dialect, options = mypt_spec.dialect(name), {"enable_thinking": False}
    prompter = Prompter(dialect, name)
    prompt = prompter.prompt([user("Hi")], [], options).ids
    answer = {"role": "assistant", "content": "1"}
    (whole,) = dialect.trained(
        prompter.episode([user("Hi"), answer], [], options)[0], history="official"
    )
    encoded = dialect.encode(whole)
    assert prompt == encoded.ids.tolist()[: len(prompt)]
    assert not encoded.loss[: len(prompt)].any()


def test_a_record_as_a_prompt_has_the_thoughts_of_training() -> None:
    dialect = mypt_spec.dialect("qwen3")
    turns = [
        user("Hi"), {"role": "assistant", "reasoning_content": "Old one.", "content": "Hello."},
        user("And?"),
    ]  # fmt: skip
    text = json.dumps({"messages": turns})
    assert "Old one." not in dialect.tokenizer.decode(read_prompt(dialect, text)[0])
    assert "Old one." in dialect.tokenizer.decode(read_prompt(dialect, text, "keep")[0])


def test_types_of_other_languages_are_read_as_what_they_mean() -> None:
    tool = function("f", {"a": {"type": "dict"}, "b": {"type": "float"}})
    prompter = Prompter(vocabulary.small("qwen3"), "qwen3")
    assert prompter.prompt([user("Hi")], [tool]).ids


def test_instructions_of_developers_are_the_system_prompt_where_there_is_no_such_role() -> None:
    prompter = Prompter(vocabulary.small("qwen3"), "qwen3")
    developer, system = (
        [{"role": r, "content": "Be brief."}, user("Hi")] for r in ("developer", "system")
    )
    assert prompter.prompt(developer, ()).ids == prompter.prompt(system, ()).ids
    with pytest.raises(ApiError, match=r"messages\[1\].content: developer: qwen3 has no place"):
        prompter.prompt([system[0], *developer], ())


def test_a_required_call_may_follow_a_thought() -> None:
    """Without thoughts the answer is a call from its beginning, also where each has a thought."""
    prompter, tools = (
        Prompter(vocabulary.small("glm4.5"), "glm4.5"),
        [function("f", {"q": {"type": "string"}})],
    )
    ids = prompter.prompt([user("Hi")], tools).ids
    begins = []
    for think in (True, False):
        recipe = Recipe(tools, Choice("required", ("f",)), Response(schema={}), think=think)
        made = Decoders(prompter.dialect).get(recipe).decoder
        begins.append(made.dialect.tokenizer.decode(made.forced(made.start(ids), ids)))
    assert begins == ["\n<think>", "\n<think></think>\n<tool_call>f\n"]


NAMED = [{"type": "function", "function": {"name": name}} for name in ("a", "b", "c")]


@pytest.mark.parametrize(
    ("value", "choice"),
    [
        (None, Choice("auto")),
        ("required", Choice("required")),
        (NAMED[0], Choice("required", ("a",))),
        (allowed("auto", NAMED[:2]), Choice("auto", ("a", "b"))),
        (allowed("required", NAMED[1:2]), Choice("required", ("b",))),
        (allowed("required", NAMED), None),  # "c" is no tool
        (allowed("none", NAMED[:1]), None),
        (allowed("auto", []), None),
        (allowed("auto", ["a"]), None),
        ({"type": "allowed_tools", "allowed_tools": 1}, None),
        ({"type": "function", "function": {}}, None),
        ("a", None),
    ],
)
def test_choices_of_tools(value: Any, choice: Choice | None) -> None:
    if choice is not None:
        assert choice_of(value, ["a", "b"], str) == choice
        return
    with pytest.raises(ApiError, match="expected auto, none, required, allowed_tools or"):
        choice_of(value, ["a", "b"], str)
