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
from mypt_infer.controller.events import Event, ToolResult, TurnEnd, TurnsDropped
from mypt_infer.controller.model_source import ModelSource
from mypt_infer.controller.options import Budget
from mypt_infer.controller.turn import STOPPED
from mypt_infer.decode import Decoder
from mypt_infer.generate.llama import Cache, Llama, LlamaConfig, random_model
from mypt_infer.toolbox import Tool, Toolbox
from mypt_infer.workspace import WorkspaceEngine, WorkspaceTools, toolbox
from tests.support.scripted import ids_of

ROOT = Path(__file__).parents[3]
ANY: dict[str, Any] = {"type": "object"}
LARGE = {"documents": [{"doc_id": f"d{i}", "text": "word " * 200} for i in range(9)]}
CALL = '<myPT_toolcall>{"name": "find"}</myPT_toolcall>'
DONE = "Done.</myPT_assistant>"


def talk(
    script: str, *said: str, value: Any = LARGE, dialect: str = "mypt", **options: Any
) -> tuple[Controller, list[Event]]:
    """Says texts to a script that calls one tool; returns the events of the last turn."""
    controller = Controller(
        Script(ids_of(script, dialect)),
        Toolbox([Tool("find", "", ANY, lambda args: value)]),
        dialect=dialect,
        system="S" if dialect == "mypt" else None,
        options=Options(**options),
    )
    events: list[Event] = []
    for text in said:
        events = list(controller.say(text))
        assert replay(json.loads(json.dumps(controller.record())), dialect)
    return controller, events


def results(events: list[Event]) -> list[ToolResult]:
    return [e for e in events if isinstance(e, ToolResult)]


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
    for question in QUESTIONS:
        controller = Controller(
            Demo("mypt"),
            docs,
            system=f"You are MyPT. Answer with the tools.\n\n{docs.usage}",
            options=Options(context_length=length),
        )
        events = list(controller.say(question))
        assert [r.error for r in results(events)] == [""]
        assert isinstance(events[-1], TurnEnd)
        assert events[-1].reason == "stop", (question, events[-1])
        assert controller.answer()["content"] != STOPPED


@pytest.mark.parametrize("length", [256, 512, 1024])
def test_a_result_leaves_the_room_that_is_reserved(length: int) -> None:
    most = 20
    controller, events = talk(
        CALL + "word " * most + DONE, "x", context_length=length, answer_reserve=most + 4
    )
    assert results(events)[0].truncated
    assert events[-1] == TurnEnd("stop", len(ids_of(CALL + "word " * most + DONE)))
    assert len(controller.history) <= length - 100


def test_a_second_result_without_room_says_so_and_the_model_answers() -> None:
    controller, events = talk(CALL * 2 + DONE, "x", context_length=400)
    assert [r.error for r in results(events)] == ["", "no_room"]
    assert isinstance(events[-1], TurnEnd)
    assert events[-1].reason == "stop"
    assert controller.answer()["content"] == "Done."


def test_old_turns_make_room_for_a_result() -> None:
    controller, events = talk(
        "word " * 150 + DONE + CALL + DONE, "One", "Two", context_length=512, max_tokens=160
    )
    _, shown = talk(CALL + DONE, "Two", context_length=512, max_tokens=160)
    dropped = [e for e in events if isinstance(e, TurnsDropped)]
    assert [e.turns for e in dropped] == [1]
    assert len(results(events)[0].value["documents"][0]["text"]) > 100
    assert results(events)[0].value == results(shown)[0].value
    assert controller.source.context == controller.history.context()[:-1]  # type: ignore[attr-defined]


def test_without_a_reserve_a_result_may_take_everything() -> None:
    text = "word " * 2000
    controller, events = talk(
        CALL + "word " * 40, "x", value=text, context_length=400, answer_reserve=None
    )
    assert isinstance(events[-1], TurnEnd)
    assert (events[-1].reason, events[-1].message) == ("max_tokens", "the context of 400 ids is full")  # fmt: skip
    assert controller.answer()["content"] == STOPPED


def test_results_of_one_message_share_the_room() -> None:
    calls = [
        {"id": f"c{i}", "type": "function", "function": {"name": "find", "arguments": {}}}
        for i in range(3)
    ]
    script = f"<tool_calls_start>{json.dumps(calls)}<tool_calls_end>\n<end>\n<message_start>Done.<message_end>\n<end>\n"
    controller, events = talk(script, "x", dialect="usf-omega", context_length=1200)
    assert [r.error for r in results(events)] == [""] * 3
    assert isinstance(events[-1], TurnEnd)
    assert events[-1].reason == "stop"
    assert "Done." in str(controller.answer()["content"])


# Transcripts of before


HERE = Path(__file__).parent
OLD = [
    (version, line)
    for version, held in ((1, 2), (2, 2), (3, 3))
    for line in (HERE / f"transcripts_of_version_{held}.jsonl").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize(
    ("version", "line"), OLD, ids=[f"{v}-{json.loads(line)['_note']}" for v, line in OLD]
)
def test_transcripts_of_older_versions_replay(version: int, line: str) -> None:
    record = json.loads(line)
    record["_transcript"]["version"] = version
    dialect = next(
        name
        for name in mypt_spec.dialects()
        if mypt_spec.dialect(name).fingerprint == record["_transcript"]["grammar"]
    )
    history, _ = replay(record, dialect)
    assert history.ids == record["_transcript"]["ids"]
    resumed = Controller.from_record(record, Script([]), dialect=dialect)
    again = json.loads(json.dumps(resumed.record()))
    assert again["_transcript"]["version"] == 5
    assert replay(again, dialect)[0].ids == history.ids


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


@pytest.mark.parametrize("dialect", ["mypt", "mypt-3b", "praxis", "usf-omega"])
def test_a_call_of_the_decoder_that_uses_its_budget_is_run(dialect: str) -> None:
    """The decoder closes a call at its budget; the turn counts as the decoder does."""
    schema = {
        "type": "object",
        "properties": {"q": {"type": "string", "minLength": 1}},
        "required": ["q"],
    }
    tools = Toolbox([Tool("find", "", schema, lambda args: "x")])
    ends, called = [], 0
    for seed in range(6):
        decoder = Decoder(dialect, tools.schemas, max_toolcall_tokens=40)
        size = LlamaConfig(decoder.tables.vocabulary, 8, 16, 1, 2, 1, tie_word_embeddings=True)
        model = _Caller(random_model(size, seed), dialect)
        controller = Controller(
            ModelSource(model, decoder, seed=seed),
            tools,
            dialect=dialect,
            system="S" if dialect == "mypt" else None,
            options=Options(max_toolcall_tokens=40, max_tokens=200),
        )
        events = list(controller.say("Hi"))
        called += len([e for e in results(events) if not e.error])
        ends += [e.message for e in events if isinstance(e, TurnEnd)]
    assert called
    assert not [message for message in ends if "longer" in message]


OPENERS = {"mypt": "<myPT_toolcall>", "mypt-3b": '<toolcall name="find">', "praxis": "<tin>", "usf-omega": "<tool_calls_start>"}  # fmt: skip


class _Caller(Llama):
    """A model that begins a call wherever it may."""

    def __init__(self, model: Llama, dialect: str) -> None:
        super().__init__(model.net)
        self.opener = ids_of(OPENERS[dialect], dialect)
        self.seen: list[int] = []

    def __call__(self, ids: torch.Tensor, lengths: torch.Tensor, cache: Cache) -> torch.Tensor:
        got = super().__call__(ids, lengths, cache)
        self.seen += ids[0].tolist()
        known = next(
            n for n in range(len(self.opener), -1, -1) if self.seen[len(self.seen) - n :] == self.opener[:n]
        )  # fmt: skip
        if known < len(self.opener):
            got[:, self.opener[known]] += 100
        return got


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
    assert isinstance(events[-1], TurnEnd)
    assert events[-1].reason == reason


# Limits that are none


WHOLE = ["max_steps", "max_tokens", "max_think_tokens", "max_toolcall_tokens", "max_result_tokens", "context_length", "answer_reserve"]  # fmt: skip
NO_NUMBERS: list[Any] = [float("nan"), float("inf"), float("-inf"), -1, 1.5, True, "3"]


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_a_limit_of_ids_is_a_whole_number(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        Options(**{name: value})


@pytest.mark.parametrize("name", ["max_think_tokens", "max_toolcall_tokens", "seconds", "tool_seconds"])  # fmt: skip
def test_a_limit_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0"):
        Options(**{name: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["seconds", "tool_seconds"])
@pytest.mark.parametrize("value", [float("nan"), float("-inf"), -1.0, True, "3"], ids=repr)
def test_a_time_is_a_number_above_zero(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        Options(**{name: value})
    tools = Toolbox([Tool("f", "", ANY, lambda args: 1)])
    with pytest.raises(ValueError, match="seconds"):
        tools.call("f", {}, seconds=value)


@pytest.mark.parametrize("value", [float("inf"), 1e12, 10**400])
def test_a_time_without_end_is_no_limit(value: float) -> None:
    controller, events = talk(
        CALL + DONE, "x", value=1, seconds=value, tool_seconds=value, max_toolcall_tokens=9
    )
    assert [e.value for e in results(events)] == [1]
    assert isinstance(events[-1], TurnEnd)
    assert events[-1].reason == "stop"
    json.dumps(controller.record(), allow_nan=False)
    assert Options(seconds=float("inf")) == Options()


def test_a_conversation_is_resumed_from_its_record() -> None:
    controller, _ = talk(CALL + DONE, "One", value=1)
    record = json.loads(json.dumps(controller.record()))
    source = Script(ids_of(DONE))
    resumed = Controller.from_record(record, source, controller.tools)
    assert resumed.messages() == controller.messages()
    assert resumed.last_end == controller.last_end
    events = list(resumed.say("Two"))
    assert isinstance(events[-1], TurnEnd)
    assert events[-1].reason == "stop"
    assert source.context == resumed.history.context()[:-1]
    assert resumed.history.ids[: len(controller.history.ids)] == controller.history.ids
    assert replay(json.loads(json.dumps(resumed.record())), "mypt")
    with pytest.raises(TranscriptError):
        Controller.from_record({"messages": []}, source)
