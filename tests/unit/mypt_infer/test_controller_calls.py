"""Events follow each call from its beginning to its end, in every dialect, wherever a turn stops."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from mypt_infer.controller import Controller, Options, Script, replay
from mypt_infer.controller.events import (
    ArgumentsDelta,
    CallDropped,
    CallParsed,
    CallStart,
    Event,
    ToolResult,
)
from mypt_infer.toolbox import Tool, Toolbox
from mypt_spec.bodies.json_body import calls_of
from tests.support.scripted import ends_of_calls, ids_of

ANY: dict[str, Any] = {"type": "object"}


def usf(*ids: str, said: str = "") -> str:
    calls = [
        {"id": i, "type": "function", "function": {"name": "f", "arguments": {"q": i}}} for i in ids
    ]
    said = said and f"<message_start>{said}<message_end>\n"
    return f"{said}<tool_calls_start>{json.dumps(calls)}<tool_calls_end>\n<end>\n"


def mistral(*ids: str, said: str = "") -> str:
    calls = [{"name": "f", "arguments": {"q": i}, "id": i} for i in ids]
    return f"{said}[TOOL_CALLS]{json.dumps(calls)}</s>"


def v13(*ids: str, said: str = "") -> str:
    calls = [f'[TOOL_CALLS]f[ARGS]{{"q": "{i}"}}' for i in ids]
    return f"[THINK]Hm.[/THINK]{said}{''.join(calls)}</s>"


# What a model writes: two calls, one after the other, and an answer.
SCRIPTS = {
    "mypt": '<myPT_think>Hm.</myPT_think><myPT_toolcall>{"name": "f", "q": "ü 😀"}</myPT_toolcall>' * 2
    + "Done <myPT_cite>d#1</myPT_cite>.</myPT_assistant>",
    "mypt-3b": '\n<toolcall name="f">\n{"q": "ü < 😀"}\n</toolcall>\n' * 2 + "Done.</assistant>",
    "praxis": 'I look. <tin>\n{"name": "f", "arguments": {"q": "ü <t"}}\n</tin>' * 2 + " Done.\n[SEP]",
    "mistral": mistral("a", "b", said="Two.") + mistral("a") + "Done.</s>",
    "mistral-v13": v13("a", "b", said="Two.") + v13("a") + "Done.</s>",
    "llama3": '<|python_tag|>{"name": "f", "parameters": {"q": "ü"}}<|eom_id|>' * 2 + "Done.<|eot_id|>",
    "usf-omega": usf("a", "b", said="Two.") + usf("a") + "<message_start>Done.<message_end>\n<end>\n",
}  # fmt: skip
NUMBERS = {
    "llama3": 2,
    "mypt": 2,
    "mypt-3b": 2,
    "praxis": 2,
    "usf-omega": 3,
    "mistral": 3,
    "mistral-v13": 3,
}


def controller_of(dialect: str, ids: list[int], **options: Any) -> Controller:
    tools = Toolbox([Tool("f", "", ANY, lambda args: {"was": args})])
    system = "S" if dialect == "mypt" else None
    made = Options(**{"max_steps": 5} | options)
    return Controller(Script(ids), tools, dialect=dialect, system=system, options=made)


def check(controller: Controller) -> dict[int, str]:
    """A legal history, a transcript that replays, and calls that are followed to their ends."""
    episode, _ = controller.history.dialect.parse_ids(controller.history.ids)
    assert episode is not None
    record = json.loads(json.dumps(controller.record()))
    assert replay(record, controller.dialect)[1] == controller._events
    ended = ends_of_calls(controller._events)
    # Only this format lets a turn end with its calls.
    assert "unanswered" not in ended.values() or controller.dialect == "usf-omega"
    written = calls_of(episode.messages, controller.history.dialect.table)
    assert len(list(written)) == sum(how != "dropped" for how in ended.values())
    return ended


@pytest.mark.parametrize("dialect", SCRIPTS)
def test_calls_have_numbers_names_and_ids(dialect: str) -> None:
    controller = controller_of(dialect, ids_of(SCRIPTS[dialect] * 2, dialect))
    events = [*controller.say("One"), *controller.say("Two")]
    count = 2 * NUMBERS[dialect]
    assert check(controller) == dict.fromkeys(range(1, count + 1), "result")
    parsed = [e for e in events if isinstance(e, CallParsed)]
    results = [e for e in events if isinstance(e, ToolResult)]
    assert [e.call for e in parsed] == [e.call for e in results] == list(range(1, count + 1))
    assert [e.name for e in results] == ["f"] * count
    named = dialect in ("mistral", "usf-omega")
    written = ["a", "b", "a"] * 2 if named else [""] * count
    assert [e.id for e in parsed] == [e.id for e in results] == written
    for number in {e.call for e in events if isinstance(e, CallStart)}:
        said = "".join(e.text for e in events if isinstance(e, ArgumentsDelta) and e.call == number)
        assert json.loads(said), "the pieces of a call are known by its number"


@pytest.mark.parametrize("dialect", SCRIPTS)
def test_what_no_record_can_say_together_is_left_out_turn_by_turn(dialect: str) -> None:
    """Mistral v7 has its tools before the last question alone, so a record holds one such turn."""
    controller = controller_of(dialect, ids_of(SCRIPTS[dialect] * 3, dialect))
    for said in ("One", "Two", "Three"):
        list(controller.say(said))
    record = controller.record()
    left_out = [number for number, _ in record["_transcript"].get("left_out", [])]
    assert left_out == ([2, 3] if dialect == "mistral" else [])
    assert [m["content"] for m in record["messages"] if m["role"] == "user"] == [
        said for number, said in enumerate(("One", "Two", "Three"), 1) if number not in left_out
    ]
    _, findings = controller.history.dialect.check(record)
    assert not [f for f in findings if f.severity == "error"]


def stops(dialect: str) -> Iterator[Controller]:
    """Controllers after a turn that was stopped, at every id, in every way."""
    ids = ids_of(SCRIPTS[dialect], dialect)
    for n in range(len(ids)):
        yield controller_of(dialect, ids[:n])  # the source fails
        yield controller_of(dialect, [*ids[:n], -5])  # it draws what means nothing
        yield controller_of(dialect, ids, max_tokens=n + 1)
        yield controller_of(dialect, ids, max_toolcall_tokens=n + 1)
    for steps in range(1, 4):
        yield controller_of(dialect, ids, max_steps=steps)
    for length in range(200, 400, 8):
        yield controller_of(dialect, ids, context_length=length)


@pytest.mark.parametrize("dialect", SCRIPTS)
def test_a_call_that_is_cut_is_told_wherever_a_turn_stops(dialect: str) -> None:
    ended: list[str] = []
    for controller in stops(dialect):
        with contextlib.suppress(RuntimeError, ValueError):
            list(controller.say("x"))
        if controller.history.ids:
            ended += check(controller).values()
    assert ended.count("dropped") > 10
    assert ended.count("result") > 10


@pytest.mark.parametrize("dialect", SCRIPTS)
@pytest.mark.parametrize("how", ["cancel", "close", "throw"])
def test_a_call_that_is_cut_is_told_whoever_stops_it(dialect: str, how: str) -> None:
    ids, number, told = ids_of(SCRIPTS[dialect], dialect), 0, 0
    dropped = 0
    while told >= number:
        controller = controller_of(dialect, ids)
        turn, told = controller.say("x"), 0
        for told, _ in enumerate(turn, 1):
            if told == number + 1 and how == "cancel":
                controller.cancel()
            elif told == number + 1 and how == "close":
                turn.close()  # type: ignore[attr-defined]
                break
            elif told == number + 1:
                with pytest.raises(OSError, match="broken"):
                    turn.throw(OSError("broken"))  # type: ignore[attr-defined]
                break
        dropped += list(check(controller).values()).count("dropped")
        number += 1
    assert dropped


BROKEN = {
    "mypt": '<myPT_toolcall>{"name": 1}</myPT_toolcall>',
    "mypt-3b": '\n<toolcall name="f">\n[1]\n</toolcall>\n',
    "praxis": '<tin>\n{"name": "f"}\n</tin>',
    "usf-omega": usf("a", "a"),
    "mistral-v13": "[TOOL_CALLS]f[ARGS][1]</s>",
    "llama3": '<|python_tag|>{"name": "f", "arguments": {}}<|eom_id|>',
}


@pytest.mark.parametrize("dialect", BROKEN)
def test_a_call_that_cannot_be_read_is_told(dialect: str) -> None:
    controller = controller_of(dialect, ids_of(BROKEN[dialect], dialect))
    events: list[Event] = list(controller.say("x"))
    assert check(controller) == {1: "dropped"}
    name = "f" if dialect in ("mypt-3b", "mistral-v13") else ""
    assert [e for e in events if isinstance(e, CallDropped)] == [CallDropped(name, 1)]
