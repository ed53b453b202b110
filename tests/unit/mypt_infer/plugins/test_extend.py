"""New messages after ids that are there: what a prompt of all messages is, without writing them again."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import mypt_spec
from mypt_infer.plugins.extend import extend
from mypt_infer.serve.asked.prompts import Prompter
from mypt_spec.dialect import families
from mypt_spec.encoder import encode_events
from tests.support.build import assistant, function, user

TOOLS = [function("f", {"x": {"type": "integer"}})]
SYSTEM = {"role": "system", "content": "S"}
CALL = {"id": "call_0aaa", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
NEXT = CALL | {"id": "call_1aaa"}
RESULT = {"role": "tool", "tool_call_id": "call_0aaa", "content": "5"}
CHATS = {
    "question": ([user("Hi"), assistant("Yo"), user("And?")], []),
    "result": ([user("Hi"), assistant("", tool_calls=[CALL]), RESULT], TOOLS),
    "results": (
        [user("Hi"), assistant("", tool_calls=[CALL, NEXT]), RESULT, RESULT | {"tool_call_id": "call_1aaa"}],
        TOOLS,
    ),
}  # fmt: skip
# Its prompts end with an empty thought, which conversations that go on do not have.
APART = {"qwen3.5-small"}
NAMES = sorted({*mypt_spec.dialects(), *families()} - APART)
# That replace the mark of the end, where the conversation goes on.
REPLACED = {("harmony", "question"), ("mypt", "question")}
REPLACED |= {
    (name, chat) for name in ("olmo3", "olmo3-7b", "olmo3-think", "usf-omega") for chat in CHATS
}


@cache
def prompter(name: str) -> Prompter:
    return Prompter(mypt_spec.dialect(name), name, history="keep")


def parts(name: str, chat: str) -> tuple[list[int], list[int], list[dict[str, Any]]] | None:
    """Returns the ids up to where the model stops, those of the prompt after it, and new messages.

    None where the format has no place for the conversation.
    """
    form, (messages, tools) = prompter(name), CHATS[chat]
    for head in ([SYSTEM], []):
        try:
            full = form.prompt([*head, *messages], tools).ids
            episode, _, _ = form.episode([*head, *messages[:2]], tools)
        except ValueError:
            continue
        encoded = form.dialect.encode(episode, partial=True)
        drawn = int(encoded.loss.nonzero()[0][-1]) + 1
        return encoded.ids.tolist()[:drawn], full, messages[2:]
    return None


@pytest.mark.parametrize(("chat", "least"), [("question", 40), ("result", 24), ("results", 18)])
def test_what_comes_next_is_the_prompt_of_all(chat: str, least: int) -> None:
    count = 0
    for name in NAMES:
        if (known := parts(name, chat)) is None:
            continue
        ids, full, messages = known
        out = extend(prompter(name), ids, messages)
        assert out.ids == full, name
        assert out.kept == len(ids) or (name, chat) in REPLACED, name
        numbers = [n for n in out.message_indices if n >= 0]
        assert numbers == sorted(numbers), name
        assert {*numbers} == {*range(len(messages))}, name
        count += 1
    assert count >= least


@pytest.mark.parametrize("ids", [("again", "more"), ("functions.f:2", "functions.f:3"), ("2", "3")])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_calls_that_are_counted_go_on_with_their_numbers(
    ids: tuple[str, str], order: tuple[int, int]
) -> None:
    form, messages = prompter("kimi-k2"), CHATS["results"][0]
    messages = [*messages, assistant("", tool_calls=[CALL | {"id": i} for i in ids])]
    episode, _, _ = form.episode(messages, TOOLS)
    encoded = form.dialect.encode(episode, partial=True)
    drawn = encoded.ids.tolist()[: int(encoded.loss.nonzero()[0][-1]) + 1]
    results = [RESULT | {"tool_call_id": ids[n], "content": str(n)} for n in order]
    out = extend(form, drawn, results)
    text = form.dialect.tokenizer.decode(out.ids[out.kept :])
    own = range(2) if ids[0] == "again" else order  # ids that nobody wrote are taken in order
    for n, content in zip(own, order, strict=True):
        assert f"## Return of functions.f:{2 + n}\n{content}" in text
    if order == (0, 1):
        assert out.ids == form.prompt([*messages, *results], TOOLS).ids


@pytest.mark.parametrize("name", ["mistral", "usf-omega"])
def test_a_result_without_an_id_is_of_a_call_that_waits(name: str) -> None:
    known = parts(name, "results")
    assert known is not None
    ids, full, (first, second) = known
    assert extend(prompter(name), ids, [first, second | {"tool_call_id": None}]).ids == full


@pytest.mark.parametrize("name", ["chatml", "qwen3", "glm4.5", "llama3.1", "harmony"])
def test_an_answer_that_was_cut_is_ended(name: str) -> None:
    known = parts(name, "question")
    assert known is not None
    ids, full, messages = known
    cut = ids[: len(ids) - 1 + (ids[-1] not in prompter(name).dialect.table.special.values())]
    assert extend(prompter(name), cut, messages).ids == full


def test_what_the_model_drew_stays() -> None:
    """Ids that the encoder would not write stay as they are."""
    form = prompter("qwen3")
    letters = [form.dialect.tokenizer.encode(c)[0] for c in "Yes"]
    ids = [*form.prompt([user("Hi")], []).ids, *letters, form.dialect.table.special["<|im_end|>"]]
    out = extend(form, ids, [user("And?")])
    assert out.ids[: out.kept] == ids
    assert form.dialect.tokenizer.decode(out.ids[out.kept :]) == (
        "\n<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_options_are_those_of_the_next_prompt() -> None:
    form, options = prompter("qwen3"), {"enable_thinking": False}
    messages, tools = CHATS["result"]
    prompt = form.prompt(messages[:1], tools, options).ids
    drawn = parts("qwen3", "result")
    assert drawn is not None
    begin = form.dialect.table.special["<tool_call>"]
    ids = [*prompt, *drawn[0][len(drawn[0]) - 1 - drawn[0][::-1].index(begin) :]]
    out = extend(form, ids, messages[2:], options)
    assert out.kept == len(ids)
    text = form.dialect.tokenizer.decode(out.ids[len(ids) :])
    assert text.startswith("\n<|im_start|>user\n<tool_response>\n5\n</tool_response><|im_end|>\n")
    assert text.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")


@pytest.mark.parametrize(
    ("text", "messages", "problem"),
    [
        ("<tool_call>\n{", [RESULT], "cut inside a call"),
        ("Yo<|im_end|>", [RESULT], "no name"),
        ("Yo<|im_end|>", [RESULT | {"name": "f"}], "not allowed"),
        ("Yo<|im_end|>", [assistant("x")], "none of the assistant"),
        ("Yo<|im_end|>", [], "must be some"),
    ],
)
def test_what_cannot_come_next_is_named(
    text: str, messages: list[dict[str, Any]], problem: str
) -> None:
    form = prompter("qwen3")
    answer = form.dialect.lex(text)
    ids = encode_events(answer, form.dialect.table, form.dialect.tokenizer).ids.tolist()
    if text.endswith("<|im_end|>"):
        ids = ids[: ids.index(form.dialect.table.special["<|im_end|>"]) + 1]
    with pytest.raises(ValueError, match=problem):
        extend(form, [*form.prompt([user("Hi")], TOOLS).ids, *ids], messages)
