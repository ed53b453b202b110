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
    ToolResult,
)
from mypt_infer.controller.turn import STOPPED
from mypt_spec.bodies.json_body import calls_of
from tests.support import scripted
from tests.support.build import call
from tests.support.dialects import FEW
from tests.support.examples import either
from tests.support.scripted import ends_of_calls, ids_of, only, text_of, tools_of, turn_end


def usf(*ids: str, text: str = "") -> str:
    calls = [call("f", {"q": i}, id=i) for i in ids]
    text = text and f"<message_start>{text}<message_end>\n"
    return f"{text}<tool_calls_start>{json.dumps(calls)}<tool_calls_end>\n<end>\n"


def mistral(*ids: str, text: str = "") -> str:
    calls = [{"name": "f", "arguments": {"q": i}, "id": i} for i in ids]
    return f"{text}[TOOL_CALLS]{json.dumps(calls)}</s>"


def qwen(*ids: str, text: str = "") -> str:
    calls = [json.dumps({"name": "f", "arguments": {"q": i}}) for i in ids]
    body = "\n".join(f"<tool_call>\n{call}\n</tool_call>" for call in calls)
    return f"{text}{body}<|im_end|>"


def v13(*ids: str, text: str = "") -> str:
    calls = [f'[TOOL_CALLS]f[ARGS]{{"q": "{i}"}}' for i in ids]
    return f"[THINK]Hm.[/THINK]{text}{''.join(calls)}</s>"


# What a model writes: calls, one after the other, and an answer.
SCRIPTS = {
    "mypt": ('<myPT_think>Hm.</myPT_think><myPT_toolcall>{"name": "f", "q": "ü 😀"}</myPT_toolcall>' * 2, "Done <myPT_cite>d#1</myPT_cite>.</myPT_assistant>"),
    "mypt-3b": ('\n<toolcall name="f">\n{"q": "ü < 😀"}\n</toolcall>\n' * 2, "Done.</assistant>"),
    "praxis": ('I look. <tin>\n{"name": "f", "arguments": {"q": "ü <t"}}\n</tin>' * 2, " Done.\n[SEP]"),
    "mistral": (mistral("a", "b", text="Two.") + mistral("a"), "Done.</s>"),
    "mistral-v13": (v13("a", "b", text="Two.") + v13("a"), "Done.</s>"),
    "llama3": ('<|python_tag|>{"name": "f", "parameters": {"q": "ü"}}<|eom_id|>' * 2, "Done.<|eot_id|>"),
    "usf-omega": (usf("a", "b", text="Two.") + usf("a"), "<message_start>Done.<message_end>\n<end>\n"),
    "qwen3": (qwen("a", "b", text="Two.\n") + qwen("a"), "Done.<|im_end|>"),
}  # fmt: skip
CALLS = dict.fromkeys(SCRIPTS, 2) | dict.fromkeys(
    ("usf-omega", "mistral", "mistral-v13", "qwen3"), 3
)
CUT = [name for name in SCRIPTS if name in FEW]
# Turns are stopped after each id in `thorough`, and else after one in so many.
STEP = either(7, 1)


def script_of(dialect: str) -> list[int]:
    return ids_of("".join(SCRIPTS[dialect]), dialect)


def controller_of(dialect: str, ids: list[int], **options: Any) -> Controller:
    tools = tools_of(f=lambda args: {"was": args})
    return scripted.controller_of(ids, tools, dialect, **{"max_steps": 5} | options)


def check_calls(controller: Controller) -> dict[int, str]:
    """Asserts that the history is legal, the transcript replays, and calls have their ends."""
    episode, _ = controller.history.dialect.parse_ids(controller.history.ids)
    assert episode is not None
    record = json.loads(json.dumps(controller.record()))
    _, events = replay(record, controller.dialect)
    ended = ends_of_calls(events)
    # Only this format lets a turn end with its calls.
    assert "unanswered" not in ended.values() or controller.dialect == "usf-omega"
    written = calls_of(episode.messages, controller.history.dialect.table)
    assert len(list(written)) == sum(how != "dropped" for how in ended.values())
    return ended


@pytest.mark.parametrize("dialect", SCRIPTS)
def test_calls_have_numbers_names_and_ids(dialect: str) -> None:
    controller = controller_of(dialect, script_of(dialect) * 2)
    events = [*controller.say("One"), *controller.say("Two")]
    assert replay(controller.record(), dialect)[1] == events
    count = 2 * CALLS[dialect]
    assert check_calls(controller) == dict.fromkeys(range(1, count + 1), "result")
    parsed, results = only(events, CallParsed), only(events, ToolResult)
    assert [e.call for e in parsed] == [e.call for e in results] == list(range(1, count + 1))
    assert [e.name for e in results] == ["f"] * count
    named = dialect in ("mistral", "usf-omega")
    written = ["a", "b", "a"] * 2 if named else [""] * count
    assert [e.id for e in parsed] == [e.id for e in results] == written
    for number in {e.call for e in only(events, CallStart)}:
        body = "".join(e.text for e in only(events, ArgumentsDelta) if e.call == number)
        assert json.loads(body), "the pieces of a call are known by its number"


@pytest.mark.parametrize("dialect", SCRIPTS)
def test_what_no_record_can_say_together_is_left_out_turn_by_turn(dialect: str) -> None:
    """Mistral v7 has its tools before the last question alone, so a record holds one such turn."""
    controller = controller_of(dialect, script_of(dialect) * 3)
    texts = ("One", "Two", "Three")
    for text in texts:
        list(controller.say(text))
    record = controller.record()
    left_out = [number for number, _ in record["_transcript"].get("left_out", [])]
    assert left_out == ([2, 3] if dialect == "mistral" else [])
    assert [m["content"] for m in record["messages"] if m["role"] == "user"] == [
        text for number, text in enumerate(texts, 1) if number not in left_out
    ]
    _, findings = controller.history.dialect.check(record)
    assert not [f for f in findings if f.severity == "error"]


def stops(dialect: str) -> Iterator[Controller]:
    """Yields controllers whose turn will be stopped, at every id, in every way."""
    ids = script_of(dialect)
    for way in range(4):
        # Each way begins elsewhere, so that together they leave out few ids.
        for n in range(way * STEP // 4, len(ids), STEP):
            yield (
                controller_of(dialect, ids[:n]),  # the source fails
                controller_of(dialect, [*ids[:n], -5]),  # it draws what means nothing
                controller_of(dialect, ids, max_tokens=n + 1),
                controller_of(dialect, ids, max_toolcall_tokens=n + 1),
            )[way]
    for steps in range(1, 4):
        yield controller_of(dialect, ids, max_steps=steps)
    for length in range(200, 400, 8 * STEP):
        yield controller_of(dialect, ids, context_length=length)


@pytest.mark.parametrize("dialect", CUT)
def test_a_call_that_is_cut_is_told_wherever_a_turn_stops(dialect: str) -> None:
    """And some of the conversations go on."""
    ends: list[str] = []
    for number, controller in enumerate(stops(dialect)):
        with contextlib.suppress(RuntimeError, ValueError):
            list(controller.say("x"))
        if controller.history.ids:
            ends += check_calls(controller).values()
        if controller.history.ids and number % 6 == 0:
            controller.source = Script(ids_of(SCRIPTS[dialect][1], dialect))
            controller.options = Options()
            assert turn_end(controller.say("More")).reason == "stop"
            assert len(controller.history.turns) == 2
            check_calls(controller)
    assert ends.count("dropped") > 10
    assert ends.count("result") > 10


@pytest.mark.parametrize("dialect", SCRIPTS)
def test_results_that_are_not_had_are_errors(dialect: str) -> None:
    controller = controller_of(dialect, script_of(dialect), max_steps=2)
    events = list(controller.say("x"))
    assert turn_end(events).reason == "max_steps"
    errors = [result.error for result in only(events, ToolResult)]
    first = CALLS[dialect] - 1  # the last step has one call
    assert errors == [""] * first + ["max_steps"]
    assert '"type": "max_steps"' in text_of(controller)
    # In the others an answer may be empty, or has begun with its calls.
    needs_text = dialect in ("mypt", "mypt-3b", "usf-omega", "mistral", "mistral-v13")
    assert (STOPPED in text_of(controller)) == needs_text


@pytest.mark.parametrize("dialect", CUT)
@pytest.mark.parametrize("how", ["cancel", "close", "throw"])
def test_a_call_that_is_cut_is_told_whoever_stops_it(dialect: str, how: str) -> None:
    ids = script_of(dialect)
    dropped = 0
    for last in range(1, len(list(controller_of(dialect, ids).say("x"))), STEP):
        controller = controller_of(dialect, ids)
        turn = controller.say("x")
        for _ in range(last):
            next(turn)
        if how == "cancel":
            controller.cancel()
            list(turn)
        elif how == "close":
            turn.close()  # type: ignore[attr-defined]
        else:
            with pytest.raises(OSError, match="broken"):
                turn.throw(OSError("broken"))  # type: ignore[attr-defined]
        dropped += list(check_calls(controller).values()).count("dropped")
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
    events = list(controller.say("x"))
    assert check_calls(controller) == {1: "dropped"}
    name = "f" if dialect in ("mypt-3b", "mistral-v13") else ""
    assert only(events, CallDropped) == [CallDropped(name, 1)]
