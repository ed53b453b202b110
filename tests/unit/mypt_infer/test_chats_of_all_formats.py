"""In each shipped format, a chat begins with the prompt of a server, goes on, and has a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import mypt_spec
from mypt_infer.controller import Controller, Options, Script
from mypt_infer.controller.events import TurnEnd
from mypt_infer.decode.prompt import prompt_ids
from mypt_spec import Dialect
from mypt_spec.dialect import families
from tests.support.build import assistant, chat, system, user
from tests.support.scripted import check_legal, ids_of, only, run_turn, text_of

NAMES = (*mypt_spec.dialects(), *families())
UNTHINKING = [name for name in NAMES if mypt_spec.dialect(name).adapter.prompting]
QUESTION = "2+2?"


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


@pytest.mark.parametrize(
    ("name", "think"), [*((n, None) for n in NAMES), *((n, False) for n in UNTHINKING)]
)
def test_a_chat_begins_like_a_prompt_and_goes_on(name: str, think: bool | None) -> None:
    d = mypt_spec.dialect(name)
    schema, decode = d.adapter.SCHEMA, d.tokenizer.decode
    options = d.adapter.prompting[0] if think is False else {}
    thinks = "reasoning_content" in schema.roles["assistant"] and think is None
    thought = {"reasoning_content": "Hm."} if thinks and not d.adapter.prompted(options) else {}
    on_top, has_system = "system" in schema.top, "system" in {*schema.top, *schema.roles}
    head: dict[str, Any] = options | ({"system": "S"} if on_top else {})
    begun = [*([system()] if has_system and not on_top else []), user(QUESTION)]
    begin = prompt_ids(d, d.read(chat(*begun, **head))[0])
    stop = next((d.table.terminals[n].spelling[0].value for n in d.table.stops), "")

    sources, answers = [], []
    for answer in ("Four.", "\nFive. "):
        episode, _ = d.read(chat(*begun, assistant(answer, **thought), **head))
        episode = d.trained(episode, history="official")[-1]
        encoded = d.encode(episode)
        text = decode(encoded.ids)
        if not text.startswith(decode(begin)):  # an empty thought that only prompts have
            text = decode(begin) + decode(encoded.ids[encoded.loss == 1])
        sources.append(Trained(d, text.rpartition(QUESTION)[2] + stop))
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
