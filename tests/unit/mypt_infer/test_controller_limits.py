"""The limits of a turn: what results leave of a context, and what budgets count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import mypt_spec
from mypt_infer.chat.demo import Demo
from mypt_infer.controller import Controller, Options, Script, TranscriptError, replay
from mypt_infer.controller.events import Event, ToolResult, TurnsDropped
from mypt_infer.controller.model_source import ModelSource
from mypt_infer.controller.options import Budget
from mypt_infer.controller.turn import STOPPED
from mypt_infer.decode import Decoder
from mypt_infer.generate.llama import Cache, Llama
from mypt_infer.toolbox import Tool, Toolbox
from mypt_infer.workspace import WorkspaceEngine, WorkspaceTools, toolbox
from mypt_spec import Dialect
from tests.support.build import call
from tests.support.examples import either
from tests.support.scripted import (
    DONE,
    call_text,
    check_legal,
    controller_of,
    ids_of,
    only,
    tools_of,
    turn_end,
)
from tests.support.tiny_models import tiny
from tests.support.vocabulary import small

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
LARGE = {"documents": [{"doc_id": f"d{i}", "text": "word " * 200} for i in range(9)]}
CALL = call_text("find")


def talk(
    script: str, *said: str, value: Any = LARGE, dialect: str = "mypt", **options: Any
) -> tuple[Controller, list[Event]]:
    """Says texts to a script that calls one tool; returns the events of the last turn."""
    controller = controller_of(script, tools_of(find=lambda args: value), dialect, **options)
    events: list[Event] = []
    for text in said:
        events = list(controller.say(text))
        assert replay(json.loads(json.dumps(controller.record())), dialect)
    return controller, events


# The room for an answer

QUESTIONS = [
    "How do I make an index of a folder?", "What is a budget of the decoder?", "Which tags are trained and which are masked?",
    "How is a transcript replayed?", "What does mypt-prepare refuse?", "How are records converted?",
    "Which rules have fixes?", "What ends a turn early?", "What is a phase?", "Which schemas does the decoder take?",
]  # fmt: skip


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Toolbox:
    return toolbox(WorkspaceTools(WorkspaceEngine(ROOT / "docs", tmp_path_factory.mktemp("index"))))


@pytest.mark.parametrize("length", [512, 768])
def test_every_question_has_an_answer(docs: Toolbox, length: int) -> None:
    """A caller that searches the documents of this project once, in a small context."""
    system = f"You are MyPT. Answer with the tools.\n\n{docs.usage}"
    options = Options(context_length=length)
    for question in QUESTIONS:
        controller = Controller(Demo("mypt"), docs, system=system, options=options)
        events = list(controller.say(question))
        assert [r.error for r in only(events, ToolResult)] == [""]
        assert turn_end(events).reason == "stop", question
        assert controller.answer()["content"] != STOPPED


@pytest.mark.parametrize("length", [256, 512, 1024])
def test_a_result_leaves_the_room_that_is_reserved(length: int) -> None:
    most = 20
    controller, events = talk(
        CALL + "word " * most + DONE, "x", context_length=length, answer_reserve=most + 4
    )
    assert only(events, ToolResult)[0].truncated
    assert turn_end(events).sampled == len(ids_of(CALL + "word " * most + DONE))
    assert turn_end(events).reason == "stop"
    assert len(controller.history) <= length - 100


def test_a_second_result_without_room_says_so_and_the_model_answers() -> None:
    controller, events = talk(CALL * 2 + DONE, "x", context_length=400)
    assert [r.error for r in only(events, ToolResult)] == ["", "no_room"]
    assert turn_end(events).reason == "stop"
    assert controller.answer()["content"] == "Done."


def test_old_turns_make_room_for_a_result() -> None:
    controller, events = talk(
        "word " * 150 + DONE + CALL + DONE, "One", "Two", context_length=512, max_tokens=160
    )
    _, shown = talk(CALL + DONE, "Two", context_length=512, max_tokens=160)
    dropped = only(events, TurnsDropped)
    assert [e.turns for e in dropped] == [1]
    assert len(only(events, ToolResult)[0].value["documents"][0]["text"]) > 100
    assert only(events, ToolResult)[0].value == only(shown, ToolResult)[0].value
    assert controller.source.context == controller.history.context()[:-1]  # type: ignore[attr-defined]


def test_results_of_one_message_share_the_room() -> None:
    calls = json.dumps([call("find", {}, id=f"c{i}") for i in range(3)])
    answer = "<message_start>Done.<message_end>\n<end>\n"
    script = f"<tool_calls_start>{calls}<tool_calls_end>\n<end>\n{answer}"
    controller, events = talk(script, "x", dialect="usf-omega", context_length=1200)
    assert [r.error for r in only(events, ToolResult)] == [""] * 3
    assert turn_end(events).reason == "stop"
    assert "Done." in str(controller.answer()["content"])


@pytest.mark.parametrize("waiting", [2, 3, 7])
@pytest.mark.parametrize("tags", [0, 9])
def test_results_that_wait_fit_with_their_tags_and_an_answer(waiting: int, tags: int) -> None:
    budget = Budget(Options(context_length=1000, max_tokens=200, answer_reserve=60), [0] * 100)
    room = budget.longest - 100 - 60
    for left in range(waiting, 0, -1):
        taken = budget.result(tags, left) + tags
        assert budget.longest_result > taken > room // left - 1
        room -= taken
        budget = Budget(budget.options, [0] * (budget.longest - 60 - room))
    assert 0 <= room < waiting


# Budgets of blocks


OPENERS = {"mypt": "<myPT_toolcall>", "mypt-3b": '<toolcall name="find">', "praxis": "<tin>", "usf-omega": "<tool_calls_start>"}  # fmt: skip


class Caller(Llama):
    """A model that begins a call wherever it may."""

    def __init__(self, model: Llama, dialect: Dialect) -> None:
        super().__init__(model.net)
        self.opener = ids_of(OPENERS[dialect.name], dialect)
        self.seen: list[int] = []

    def __call__(self, ids: torch.Tensor, lengths: torch.Tensor, cache: Cache) -> torch.Tensor:
        logits = super().__call__(ids, lengths, cache)
        self.seen += ids[0].tolist()
        begun = next(
            n for n in range(len(self.opener), -1, -1) if self.seen[len(self.seen) - n :] == self.opener[:n]
        )  # fmt: skip
        if begun < len(self.opener):
            logits[:, self.opener[begun]] += 100
        return logits


@pytest.mark.numeric
@pytest.mark.parametrize("dialect", OPENERS)
def test_a_call_of_the_decoder_that_uses_its_budget_is_run(dialect: str) -> None:
    """The decoder closes a call at its budget; the turn counts as the decoder does."""
    d = either(small, mypt_spec.dialect)(dialect)
    query = {"type": "string", "minLength": 1}
    schema = {"type": "object", "properties": {"q": query}, "required": ["q"]}
    tools = Toolbox([Tool("find", "", schema, lambda args: "x")])
    decoder = Decoder(d, tools.schemas, max_toolcall_tokens=either(80, 40))
    called = []
    for seed in range(either(2, 6)):
        model = Caller(tiny(decoder.tables.vocabulary, seed), d)
        source = ModelSource(model, decoder, seed=seed)
        limits = {"max_toolcall_tokens": either(80, 40), "max_tokens": either(300, 200)}
        controller = controller_of([], tools, d, **limits)
        controller.source = source
        events = list(controller.say("Hi"))
        assert "longer" not in turn_end(events).message
        called += [e for e in only(events, ToolResult) if not e.error]
    assert called


@pytest.mark.parametrize(("spare", "reason"), [(0, "stop"), (-1, "max_tokens")])
@pytest.mark.parametrize("dialect", ["mypt", "mypt-3b", "praxis"])
def test_a_budget_is_that_of_the_content(dialect: str, spare: int, reason: str) -> None:
    scripts = {
        "mypt": ("<myPT_toolcall>", '{"name": "find", "a": "b c d"}', "</myPT_toolcall>", DONE),
        "mypt-3b": ('<toolcall name="find">\n', '{"a": "b c d"}', "\n</toolcall>\n", "Done.</assistant>\n"),
        "praxis": ("<tin>\n", '{"name": "find", "arguments": {"a": "b c d"}}', "\n</tin>", " Done.\n[SEP]\n"),
    }  # fmt: skip
    opener, body, closer, answer = scripts[dialect]
    most = len(mypt_spec.dialect(dialect).tokenizer.encode(body)) + spare
    _, events = talk(
        opener + body + closer + answer, "x", dialect=dialect, value=1, max_toolcall_tokens=most
    )
    assert turn_end(events).reason == reason


# Limits that are none


NUMBERS = ["max_steps", "max_tokens", "max_think_tokens", "max_toolcall_tokens", "max_result_tokens", "context_length", "answer_reserve"]  # fmt: skip
TIMES = ["seconds", "tool_seconds"]
NO_TIMES: list[Any] = [float("nan"), float("-inf"), -1.0, True, "3"]
WRONG = [
    *((name, value) for name in NUMBERS for value in [*NO_TIMES, float("inf"), 1.5]),
    *((name, value) for name in TIMES for value in NO_TIMES),
]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=repr)
def test_a_limit_is_a_whole_number_and_a_time_above_zero(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        Options(**{name: value})


@pytest.mark.parametrize("name", ["max_think_tokens", "max_toolcall_tokens", *TIMES])
def test_a_limit_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0"):
        Options(**{name: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize("seconds", NO_TIMES, ids=repr)
def test_the_time_of_a_tool_is_a_number_above_zero(seconds: Any) -> None:
    with pytest.raises(ValueError, match="seconds"):
        tools_of(f=lambda args: 1).call("f", {}, seconds=seconds)


@pytest.mark.parametrize("value", [float("inf"), 1e12, 10**400])
def test_a_time_without_end_is_no_limit(value: float) -> None:
    controller, events = talk(
        CALL + DONE, "x", value=1, seconds=value, tool_seconds=value, max_toolcall_tokens=9
    )
    assert [e.value for e in only(events, ToolResult)] == [1]
    assert turn_end(events).reason == "stop"
    json.dumps(controller.record(), allow_nan=False)
    assert Options(seconds=float("inf")) == Options()


def test_transcripts_of_the_last_version_replay_or_say_why_not() -> None:
    controller, _ = talk(CALL + DONE, "One", value=1)
    record = json.loads(json.dumps(controller.record()))
    record["_transcript"]["version"] = 5
    assert replay(record, "mypt")[0].ids == controller.history.ids
    record["_transcript"]["turns"] = []
    with pytest.raises(
        TranscriptError, match=r"other turns; an earlier release wrote this .* new chat"
    ):
        replay(record, "mypt")


def test_a_conversation_is_resumed_from_its_record() -> None:
    controller, _ = talk(CALL + DONE, "One", value=1)
    record = json.loads(json.dumps(controller.record()))
    source = Script(ids_of(DONE))
    resumed = Controller.from_record(record, source, controller.tools)
    assert resumed.messages() == controller.messages()
    assert resumed.last_end == controller.last_end
    assert turn_end(resumed.say("Two")).reason == "stop"
    assert source.context == resumed.history.context()[:-1]
    assert resumed.history.ids[: len(controller.history.ids)] == controller.history.ids
    check_legal(resumed)
    with pytest.raises(TranscriptError):
        Controller.from_record({"messages": []}, source)
