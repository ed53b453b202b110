"""The limits of a turn: what results leave of a context, and what budgets count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_infer.chat.demo import Demo
from mypt_infer.controller import Controller, Options, Script, replay
from mypt_infer.controller.events import Event, ToolResult, TurnEnd, TurnsDropped
from mypt_infer.controller.turn import STOPPED
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


OLD = (Path(__file__).parent / "transcripts_of_version_2.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize("line", OLD.splitlines(), ids=lambda line: json.loads(line)["_note"])
@pytest.mark.parametrize("version", [1, 2])
def test_transcripts_of_older_versions_replay(line: str, version: int) -> None:
    record = json.loads(line)
    record["_transcript"]["version"] = version
    dialect = next(
        name
        for name in mypt_spec.dialects()
        if mypt_spec.dialect(name).fingerprint == record["_transcript"]["grammar"]
    )
    history, _ = replay(record, dialect)
    assert history.ids == record["_transcript"]["ids"]
