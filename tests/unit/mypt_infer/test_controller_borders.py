"""The borders of the agent loop to outside code: tools, sources, and whoever listens.

Whatever they do, the history is legal, the conversation goes on, and its transcript replays.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any

import pytest

from mypt_infer.controller import BusyError, Controller, Options, Script, replay
from mypt_infer.controller.events import (
    CallParsed,
    Event,
    ToolResult,
)
from tests.support.build import user
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


def talk(script: str, function: Any = None, **options: Any) -> Controller:
    """Returns a controller with one tool, `f`, or none."""
    tools = tools_of(f=function) if function is not None else None
    return controller_of(script, tools, **{"tool_seconds": None} | options)


# Copies


def test_a_tool_that_takes_its_arguments_apart() -> None:
    def pops(args: dict[str, Any]) -> int:
        args["more"] = args.pop("q").pop()
        return 1

    controller = talk(call_text(arguments=', "q": [1, 2]') + DONE, pops)
    events = list(controller.say("x"))
    assert [e.arguments for e in only(events, CallParsed)] == [{"q": [1, 2]}]
    check_legal(controller)


def test_a_tool_that_keeps_what_it_returns() -> None:
    result: dict[str, Any] = {"rows": []}

    def grows(args: dict[str, Any]) -> dict[str, Any]:
        result["rows"].append(len(result["rows"]))
        return result

    controller = talk(call_text() * 2 + DONE, grows)
    events = list(controller.say("x"))
    assert [e.value for e in only(events, ToolResult)] == [{"rows": [0]}, {"rows": [0, 1]}]
    check_legal(controller)


def test_a_listener_that_changes_what_it_is_told() -> None:
    seen = []

    def f(args: dict[str, Any]) -> dict[str, Any]:
        seen.append(dict(args))
        return {"a": 1}

    controller = talk(call_text(arguments=', "q": 1') + DONE, f)
    for event in controller.say("x"):
        if isinstance(event, CallParsed):
            event.arguments.clear()
        elif isinstance(event, ToolResult):
            event.value["a"] = 2
    assert seen == [{"q": 1}]
    check_legal(controller)


# Sources that fail


class Flaky(Script):
    """Fails now and then, before, in the middle of or after what it does."""

    def __init__(self, ids: list[int], seed: int) -> None:
        super().__init__([])
        self.coming = iter(ids)
        self.chance, self.calm = random.Random(seed), False

    def may_fail(self, where: str) -> None:
        if not self.calm and self.chance.random() < 0.15:
            raise OSError(where)

    def append(self, ids: Sequence[int]) -> None:
        try:
            self.may_fail("append")
        except OSError:
            self.context += ids[: self.chance.randrange(len(ids) + 1)]
            raise
        self.context += ids

    def next(self, left: int = 0) -> int:
        self.may_fail("before")
        self.context.append(next(self.coming))
        self.may_fail("after")
        return self.context[-1]

    def truncate(self, length: int) -> None:
        self.may_fail("truncate")
        super().truncate(length)


class Uncounted:
    """What does not say how many ids it has."""

    def __init__(self, source: Script) -> None:
        self.append, self.next, self.truncate = source.append, source.next, source.truncate


def test_a_source_says_how_many_ids_it_has() -> None:
    with pytest.raises(TypeError, match="Uncounted is not a source of ids: it lacks held"):
        Controller(Uncounted(Script([])))  # type: ignore[arg-type]


def test_a_source_that_fails_is_given_all_at_the_next_draw() -> None:
    answer = ids_of(call_text() + "word " * 3 + DONE)
    for seed in range(either(15, 50)):
        flaky = Flaky(answer * 40, seed)
        options = Options(context_length=320, max_tokens=40)
        controller = Controller(flaky, tools_of(f=lambda args: 1), system="S", options=options)
        for turn in range(8):
            try:
                list(controller.say(f"Question {turn}"))
            except OSError:
                assert controller.last_end is not None
                assert controller.last_end.reason == "error"
                flaky.coming = iter(answer * 40)
        flaky.calm = True
        flaky.coming = iter(answer)
        assert turn_end(controller.say("Last")).reason == "stop", seed
        assert flaky.context == controller.history.context()[:-1], seed
        check_legal(controller)


def events_of(controller: Controller) -> list[Event]:
    return replay(controller.record(), "mypt")[1]


# Exceptions at any place


@pytest.mark.parametrize(
    "error", [SystemExit(1), GeneratorExit(), KeyboardInterrupt(), MemoryError()]
)
def test_the_source_raises_what_ends_programs(error: BaseException) -> None:
    class Raises(Script):
        def next(self, left: int = 0) -> int:
            if len(self.context) > 12:
                raise error
            return super().next(left)

    controller = Controller(Raises(ids_of("a b c d e f g h i j" + DONE)), system="S")
    if isinstance(error, KeyboardInterrupt):
        assert turn_end(controller.say("x")).reason == "cancelled"
    else:
        with pytest.raises(type(error)):
            list(controller.say("x"))
    goes_on(controller)


def goes_on(controller: Controller) -> None:
    """The history is legal, and another turn is answered."""
    if controller.history.ids:
        check_legal(controller)
    controller.source = Script(ids_of("Again.</myPT_assistant>"))
    assert turn_end(controller.say("And?")).reason == "stop"
    assert controller.answer()["content"] == "Again."
    check_legal(controller)


SCRIPT = "<myPT_think>Hm.</myPT_think>" + call_text() + "Yes <myPT_cite>c</myPT_cite>" + DONE


@pytest.mark.parametrize("error", [SystemExit(1), ValueError("x"), KeyboardInterrupt()])
def test_an_exception_that_is_thrown_into_a_turn(error: BaseException) -> None:
    size = len(list(talk(SCRIPT, lambda args: 1).say("x")))
    for at in range(1, size + 1):
        controller = talk(SCRIPT, lambda args: 1)
        turn = controller.say("x")
        events = [next(turn) for _ in range(at)]
        with pytest.raises(type(error)):
            turn.throw(error)  # type: ignore[attr-defined]
        assert events_of(controller)[:at] == events
        goes_on(controller)


class _Signal:
    """Raises SystemExit at the n-th line of the controller that is run, as a signal might."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if "mypt_infer/controller" not in code.co_filename or code.co_name in UNGUARDED:
            return None
        if event == "line":
            self.left -= 1
            if not self.left:
                raise SystemExit
        return self


# What takes the lock and lets it go, and what cleans up: no exception is expected there.
UNGUARDED = {"_one_turn", "stop", "_again", "restart", "back", "_next"}


def test_a_signal_at_any_line() -> None:
    lines = sys.maxsize
    chance = random.Random(0)
    at = 1
    while at < lines:
        controller = talk(SCRIPT, lambda args: 1)
        turn, before = controller.say("x"), sys.gettrace()
        sys.settrace(_Signal(at))
        try:
            list(turn)
            lines = at
        except SystemExit:
            pass
        finally:
            sys.settrace(before)
        del turn
        goes_on(controller)
        at += chance.randrange(1, 120)
    assert lines > 1000


# Cancelling


class Hang:
    """A tool that hangs once it has `begun`."""

    def __init__(self) -> None:
        self.begun, self.stop = threading.Event(), threading.Event()

    def function(self, args: dict[str, Any]) -> None:
        self.begun.set()
        self.stop.wait(60)


def test_cancel_does_not_wait_for_a_tool() -> None:
    hang = Hang()
    controller = talk(call_text() + DONE, hang.function, tool_seconds=40)
    canceller = threading.Thread(target=lambda: hang.begun.wait(60) and controller.cancel())
    canceller.start()
    began = time.monotonic()
    events = list(controller.say("x"))
    assert time.monotonic() - began < 30
    canceller.join()
    hang.stop.set()
    assert turn_end(events).reason == "cancelled"
    assert [e.error for e in only(events, ToolResult)] == ["cancelled"]
    check_legal(controller)
    goes_on(controller)


def test_a_cancel_before_the_first_event_holds() -> None:
    controller = talk(DONE)
    turn = controller.say("x")
    controller.cancel()
    assert turn_end(turn).reason == "cancelled"
    assert turn_end(controller.say("y")).reason == "stop", "it was for that turn alone"


def test_a_second_turn_says_that_another_one_runs() -> None:
    controller = talk("One two." + DONE)
    turn = controller.say("x")
    next(turn)
    with pytest.raises(BusyError, match="another turn"):
        list(controller.say("y"))
    with pytest.raises(BusyError):
        controller.reset()
    with pytest.raises(BusyError):
        controller.run([user("y")])
    assert turn_end(turn).reason == "stop"
    goes_on(controller)
