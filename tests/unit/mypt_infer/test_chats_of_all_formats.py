"""In each shipped format, a chat begins with the prompt of a server, goes on, and has a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import mypt_spec
from mypt_infer.controller import Controller, Options, Script, ScriptEnd
from mypt_infer.controller.events import ToolResult, TurnEnd
from mypt_infer.controller.messages import append_messages
from mypt_infer.decode.prompt import prompt_ids
from mypt_infer.run_format import format_of
from mypt_lint.derive.conversations import with_counted_ids
from mypt_spec import Dialect, Episode
from mypt_spec.adapters.messages import Messages
from mypt_spec.dialect import families
from tests.support.build import assistant, call, calls, chat, system, tool, user
from tests.support.scripted import check_legal, ids_of, only, run_turn, text_of, tools_of

NAMES = (*mypt_spec.dialects(), *families())
UNTHINKING = [name for name in NAMES if mypt_spec.dialect(name).adapter.prompting]
QUESTION = "2+2?"


def can_call(name: str) -> bool:
    d = mypt_spec.dialect(name)
    return format_of(d).result is not None and isinstance(d.adapter, Messages)


class Trained:
    """Draws what a model would that has learned what comes after each question."""

    def __init__(self, dialect: Dialect, text: str) -> None:
        self._dialect, self._text, self._next = dialect, text, list[int]()
        self._context: list[int] = []

    @property
    def held(self) -> int:
        return len(self._context)

    def append(self, ids: Sequence[int]) -> None:
        self._context += ids
        self._next = [] if ids else self._next

    def next(self, left: int = 0) -> int:
        if not self._next:
            said = self._dialect.tokenizer.decode(self._context).rpartition(QUESTION)[2]
            assert self._text.startswith(said)
            self._next = ids_of(self._text.removeprefix(said), self._dialect)
        self._context.append(self._next.pop(0))
        return self._context[-1]

    def truncate(self, length: int) -> None:
        del self._context[length:]


def after_question(d: Dialect, begin: Sequence[int], episode: Episode) -> str:
    """Returns what comes after the question of an episode, and with which tag a model stops.

    The prompt may begin with an empty thought that is not trained.
    """
    ids = d.encode(episode).ids.tolist()
    same = next(
        (n for n, pair in enumerate(zip(begin, ids, strict=False)) if len({*pair}) > 1), None
    )
    text = d.tokenizer.decode([*begin, *ids[len(begin) if same is None else same :]])
    return text.rpartition(QUESTION)[2] + stop_tag(d)


def stop_tag(d: Dialect) -> str:
    return next((d.table.terminals[n].spelling[0].value for n in d.table.stops), "")


@pytest.mark.parametrize(
    ("name", "think"), [*((n, None) for n in NAMES), *((n, False) for n in UNTHINKING)]
)
def test_a_chat_begins_like_a_prompt_and_goes_on(name: str, think: bool | None) -> None:
    d = mypt_spec.dialect(name)
    schema = d.adapter.SCHEMA
    options = d.adapter.prompting[0] if think is False else {}
    thinks = "reasoning_content" in schema.roles["assistant"] and think is None
    thought = {"reasoning_content": "Hm."} if thinks and not d.adapter.prompted(options) else {}
    on_top, has_system = "system" in schema.top, "system" in {*schema.top, *schema.roles}
    head: dict[str, Any] = options | ({"system": "S"} if on_top else {})
    begun = [*([system()] if has_system and not on_top else []), user(QUESTION)]
    begin = prompt_ids(d, d.read(chat(*begun, **head))[0])

    sources, answers = [], []
    for answer in ("Four.", "\nFive. "):
        episode, _ = d.read(chat(*begun, assistant(answer, **thought), **head))
        episode = d.trained(episode, history="official")[-1]
        sources.append(Trained(d, after_question(d, begin, episode)))
        answers.append(d.write(episode)["messages"][-1]["content"])

    controller = Controller(
        sources[0], dialect=name, system="S" if has_system else None, options=Options(think=think)
    )
    events = list(controller.say(QUESTION))
    assert controller.history.ids[: len(begin)] == begin
    check_legal(controller)
    controller.source = sources[1]
    events += controller.say(QUESTION)
    check_legal(controller)
    assert [e.reason for e in only(events, TurnEnd)] == ["stop", "stop"]
    messages = controller.record()["messages"]
    assert [m["content"] for m in messages if m["role"] == "assistant"] == answers
    assert controller.answer()["content"] == answers[1]


@pytest.mark.parametrize("name", [*filter(can_call, NAMES)])
def test_a_chat_calls_a_tool_as_in_training(name: str) -> None:
    d = mypt_spec.dialect(name)
    roles, top = d.adapter.SCHEMA.roles, d.adapter.SCHEMA.top
    tools = tools_of(find=lambda _: "4")
    thinks = "reasoning_content" in roles["assistant"] and not d.adapter.prompted({})
    thought = {"reasoning_content": "Hm."} if thinks else {}
    messages = [
        *([system()] if "system" in roles else []), user(QUESTION),
        calls(call(arguments={"q": 1}, id="a1b2c3d4e"), **thought),
        tool("4", tool_call_id="a1b2c3d4e"), assistant("Four.", **thought),
    ]  # fmt: skip
    head = {"tools": tools.schemas} if "tools" in top else {}
    record = with_counted_ids(d, chat(*messages, **head))
    begin = prompt_ids(d, d.read(chat(*messages[:-3], **head))[0])
    episode = d.trained(d.read(record)[0], history="official")[-1]
    text = after_question(d, begin, episode)
    source, prompt = Trained(d, text), "S" if "system" in roles else None
    controller = Controller(source, tools, dialect=name, system=prompt)
    events = list(controller.say(QUESTION))
    assert [e.reason for e in only(events, TurnEnd)] == ["stop"]
    assert [e.value for e in only(events, ToolResult)] == ["4"]
    check_legal(controller)
    written = text_of(controller).rpartition(QUESTION)[2]
    assert text.startswith(written)
    assert text.removeprefix(written).strip() in ("", stop_tag(d))
    append_messages(controller.history, [user(QUESTION)])  # another turn may begin


@pytest.mark.parametrize("end", ["<|im_end|>", "<|endoftext|>"])
def test_an_answer_may_stop_like_an_earlier_or_the_last_one(end: str) -> None:
    controller, events = run_turn(f"Four.{end}", dialect="olmo3")
    assert text_of(controller).endswith("assistant\nFour.<|endoftext|>")
    controller.source = Script(ids_of(f"Five.{end}", "olmo3"))
    events += controller.say("One more?")
    check_legal(controller)
    assert [e.reason for e in only(events, TurnEnd)] == ["stop", "stop"]
    assert "assistant\nFour.<|im_end|>\n<|im_start|>user" in text_of(controller)
    assert len(controller.record()["messages"]) == 4


def test_a_call_may_stop_like_the_last_answer() -> None:
    call_text = '<function_calls>find(q="x")</function_calls><|endoftext|>'
    tools = tools_of(find=lambda _: "4")
    controller = Controller(Script(ids_of(call_text, "olmo3")), tools, dialect="olmo3")
    with pytest.raises(ScriptEnd):
        list(controller.say(QUESTION))
    assert "environment\n4<|im_end|>" in text_of(controller)
