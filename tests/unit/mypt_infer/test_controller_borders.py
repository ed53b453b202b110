"""The borders of the agent loop to outside code: tools, sources, and whoever listens.

Whatever they do, the history is legal, the conversation goes on, and its transcript replays.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any

import pytest

from mypt_infer.controller import BusyError, Controller, Options, Script, replay
from mypt_infer.controller.events import CallParsed, Event, TextDelta, ToolResult, TurnEnd
from mypt_infer.toolbox import Tool, Toolbox
from tests.support.scripted import ids_of

ANY: dict[str, Any] = {"type": "object"}
DONE = "Done.</myPT_assistant>"


def call(name: str = "f", arguments: str = "") -> str:
    return f'<myPT_toolcall>{{"name": "{name}"{arguments}}}</myPT_toolcall>'


def talk(script: str, function: Any = None, **options: Any) -> Controller:
    tools = Toolbox([Tool("f", "", ANY, function)]) if function is not None else Toolbox()
    return Controller(
        Script(ids_of(script)), tools, system="S", options=Options(**{"tool_seconds": None} | options)
    )  # fmt: skip


def check(controller: Controller) -> None:
    """The history is legal, and its transcript replays."""
    episode, findings = controller.history.dialect.parse_ids(controller.history.ids)
    assert episode is not None
    assert not [*findings, *controller.history.dialect.validate(episode)]
    record = json.loads(json.dumps(controller.record()))
    assert replay(record, "mypt")[0].ids == controller.history.ids


def end(events: list[Event]) -> str:
    assert isinstance(events[-1], TurnEnd)
    return events[-1].reason


# Copies


def test_a_tool_that_takes_its_arguments_apart() -> None:
    def pops(args: dict[str, Any]) -> int:
        args["more"] = args.pop("q").pop()
        return 1

    controller = talk(call(arguments=', "q": [1, 2]') + DONE, pops)
    events = list(controller.say("x"))
    assert next(e for e in events if isinstance(e, CallParsed)).arguments == {"q": [1, 2]}
    check(controller)


def test_a_tool_that_keeps_what_it_returns() -> None:
    kept: dict[str, Any] = {"found": []}

    def grows(args: dict[str, Any]) -> dict[str, Any]:
        kept["found"].append(len(kept["found"]))
        return kept

    controller = talk(call() * 2 + DONE, grows)
    events = list(controller.say("x"))
    assert [e.value for e in events if isinstance(e, ToolResult)] == [
        {"found": [0]},
        {"found": [0, 1]},
    ]
    check(controller)


def test_a_listener_that_changes_what_it_is_told() -> None:
    seen = []

    def f(args: dict[str, Any]) -> dict[str, Any]:
        seen.append(dict(args))
        return {"a": 1}

    controller = talk(call(arguments=', "q": 1') + DONE, f)
    for event in controller.say("x"):
        if isinstance(event, CallParsed):
            event.arguments.clear()
        elif isinstance(event, ToolResult):
            event.value["a"] = 2
    assert seen == [{"q": 1}]
    check(controller)


# Sources that fail


class Flaky(Script):
    """Fails now and then, before, in the middle of or after what it does."""

    def __init__(self, ids: list[int], seed: int) -> None:
        super().__init__(ids)
        self.chance, self.calm = random.Random(seed), False

    def _fails(self) -> bool:
        return not self.calm and self.chance.random() < 0.15

    def append(self, ids: Sequence[int]) -> None:
        if self._fails():
            self.context += ids[: self.chance.randrange(len(ids) + 1)]
            raise OSError("append")
        self.context += ids

    def next(self, left: int = 0) -> int:
        if self._fails():
            raise OSError("before")
        token = super().next(left)
        if self._fails():
            raise OSError("after")
        return token

    def truncate(self, length: int) -> None:
        if self._fails():
            raise OSError("truncate")
        super().truncate(length)


class Uncounted:
    """What does not say how many ids it has."""

    def __init__(self, source: Script) -> None:
        self.append, self.next, self.truncate = source.append, source.next, source.truncate


def test_a_source_says_how_many_ids_it_has() -> None:
    with pytest.raises(TypeError, match="Uncounted is no source of ids: it lacks held"):
        Controller(Uncounted(Script([])))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(50))
def test_a_source_that_fails_is_given_all_at_the_next_draw(seed: int) -> None:
    answer = ids_of(call() + "word " * 3 + DONE)
    source = Flaky(answer * 40, seed)
    tools = Toolbox([Tool("f", "", ANY, lambda args: 1)])
    controller = Controller(
        source,
        tools,
        system="S",
        options=Options(context_length=320, max_tokens=40),
    )
    for turn in range(8):
        try:
            list(controller.say(f"Question {turn}"))
        except OSError:
            assert controller.last_end is not None
            assert controller.last_end.reason == "error"
            source._ids = iter(answer * 40)
    source.calm = True
    source._ids = iter(answer)
    events = list(controller.say("Last"))
    assert end(events) == "stop"
    assert source.context == controller.history.context()[:-1]
    check_legal(controller)


def test_a_message_is_not_lost_when_it_cannot_be_given() -> None:
    class Once(Script):
        failed = False

        def append(self, ids: Sequence[int]) -> None:
            if not self.failed:
                self.failed = True
                raise OSError("no network")
            super().append(ids)

    source = Once(ids_of(DONE))
    controller = Controller(source, system="S")
    with pytest.raises(OSError, match="no network"):
        list(controller.say("One"))
    list(controller.say("Two"))
    seen = controller.history.dialect.tokenizer.decode(source.context)
    assert "<myPT_user>One</myPT_user>" in seen
    assert "<myPT_user>Two</myPT_user>" in seen


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
        assert end(list(controller.say("x"))) == "cancelled"
    else:
        with pytest.raises(type(error)):
            list(controller.say("x"))
    goes_on(controller)


def goes_on(controller: Controller) -> None:
    """The history is legal, and another turn is answered."""
    if controller.history.ids:
        check_legal(controller)
    controller.source = Script(ids_of("Again.</myPT_assistant>"))
    assert end(list(controller.say("And?"))) == "stop"
    assert controller.answer()["content"] == "Again."
    check_legal(controller)


def check_legal(controller: Controller) -> None:
    d = controller.history.dialect
    episode, findings = d.parse_ids(controller.history.ids)
    assert episode is not None
    assert not [f for f in [*findings, *d.validate(episode)] if f.severity == "error"]
    record = json.loads(json.dumps(controller.record()))
    assert replay(record, "mypt")[0].ids == controller.history.ids


SCRIPT = "<myPT_think>Hm.</myPT_think>" + call() + "Yes <myPT_cite>c</myPT_cite>" + DONE


@pytest.mark.parametrize("error", [SystemExit(1), ValueError("x"), KeyboardInterrupt()])
def test_an_exception_that_is_thrown_into_a_turn(error: BaseException) -> None:
    size = len(list(talk(SCRIPT, lambda args: 1).say("x")))
    for at in range(1, size + 1):
        controller = talk(SCRIPT, lambda args: 1)
        turn = controller.say("x")
        told = [next(turn) for _ in range(at)]
        with pytest.raises(type(error)):
            turn.throw(error)  # type: ignore[attr-defined]
        assert controller._events[:at] == told, "what was told stays"
        goes_on(controller)


class _Signal:
    """Raises SystemExit at the n-th line of the controller that is run, as a signal might."""

    def __init__(self, at: int) -> None:
        self.left, self.where = at, ""

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if "mypt_infer/controller" not in code.co_filename or code.co_name in UNGUARDED:
            return None
        if event == "line":
            self.left -= 1
            if not self.left:
                self.where = f"{code.co_filename}:{frame.f_lineno}"
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
        turn, signal = controller.say("x"), _Signal(at)
        before = sys.gettrace()
        sys.settrace(signal)
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


def hanging(stop: threading.Event) -> Any:
    return lambda args: stop.wait(60)


async def _hangs(args: dict[str, Any]) -> None:
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise


@pytest.mark.parametrize("kind", ["function", "coroutine", "model"])
@pytest.mark.parametrize("seconds", [None, 30.0])
def test_a_turn_that_hangs_can_be_cancelled(kind: str, seconds: float | None) -> None:
    stop = threading.Event()

    class Hangs(Script):
        def next(self, left: int = 0) -> int:
            if kind == "model" and len(self.context) > 20:
                stop.wait(60)
            return super().next(left)

    controller = talk(call() + DONE, _hangs if kind == "coroutine" else hanging(stop))
    controller.options = Options(tool_seconds=seconds)
    controller.source = Hangs(ids_of(call() + DONE))

    async def run() -> None:
        async for _ in controller.aturn([{"role": "user", "content": "x"}]):
            pass

    async def limited() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run(), 0.3)
        assert controller.last_end is not None
        assert controller.last_end.reason == "cancelled"
        check_legal(controller)

    began = time.monotonic()
    asyncio.run(limited())
    assert time.monotonic() - began < 15, "nothing waits for what hangs"
    stop.set()
    goes_on(controller)


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_cancel_does_not_wait_for_a_tool(kind: str) -> None:
    stop = threading.Event()
    began = time.monotonic()
    for turn in (0, 1):
        controller = talk(call() + DONE, _hangs if kind == "coroutine" else hanging(stop))
        controller.options = Options(tool_seconds=40)
        threading.Timer(0.3, controller.cancel).start()
        events = asyncio.run(all_of(controller)) if turn else list(controller.say("x"))
        assert end(events) == "cancelled"
        assert [e.error for e in events if isinstance(e, ToolResult)] == ["cancelled"]
        check_legal(controller)
    stop.set()
    assert time.monotonic() - began < 30


async def all_of(controller: Controller, said: str = "x") -> list[Event]:
    return [event async for event in controller.aturn([{"role": "user", "content": said}])]


def test_a_cancel_before_the_first_event_holds() -> None:
    controller = talk(DONE)
    turn = controller.say("x")
    controller.cancel()
    assert end(list(turn)) == "cancelled"
    assert end(list(controller.say("y"))) == "stop", "it was for that turn alone"
    controller = talk(DONE)
    later = controller.aturn([{"role": "user", "content": "x"}])
    controller.cancel()

    async def rest() -> list[Event]:
        return [event async for event in later]

    assert end(asyncio.run(rest())) == "cancelled"


def test_a_second_turn_says_that_another_one_runs() -> None:
    controller = talk("One two." + DONE)
    turn = controller.say("x")
    next(turn)
    for busy in (lambda: list(controller.say("y")), lambda: asyncio.run(all_of(controller))):
        with pytest.raises(BusyError, match="another turn"):
            busy()
    with pytest.raises(BusyError):
        controller.reset()
    with pytest.raises(BusyError):
        controller.run([{"role": "user", "content": "y"}])
    assert end(list(turn)) == "stop"
    goes_on(controller)


def test_a_coroutine_runs_in_the_loop_of_the_turn() -> None:
    loops = []

    async def f(args: dict[str, Any]) -> int:
        loops.append(asyncio.get_running_loop())
        return 7

    async def run() -> bool:
        events = await all_of(controller)
        assert [e.value for e in events if isinstance(e, ToolResult)] == [7]
        assert end(events) == "stop"
        return loops == [asyncio.get_running_loop()]

    controller = talk(call() + DONE, f)
    assert asyncio.run(run())
    check(controller)
    controller = talk(call() + DONE, f)
    assert [e.value for e in controller.say("x") if isinstance(e, ToolResult)] == [7]


def test_a_listener_that_stops_listening_to_an_async_turn() -> None:
    controller = talk("One two three." + DONE)

    async def run() -> None:
        turn = controller.aturn([{"role": "user", "content": "x"}])
        async for event in turn:
            if isinstance(event, TextDelta):
                break
        await turn.aclose()
        check_legal(controller)

    asyncio.run(run())
    assert controller.last_end is not None
    assert controller.last_end.reason == "cancelled"
    goes_on(controller)


# Calls that are taken off


@pytest.mark.parametrize(
    ("script", "most", "gone"),
    [
        (call()[:40], 8, True), ('<myPT_toolcall>{"q": 1}</myPT_toolcall>', 99, True),
        (call() + DONE, 99, False), ("<myPT_think>a b c d e f g h", 5, False),
    ],
)  # fmt: skip
def test_an_event_says_that_a_call_was_taken_off(script: str, most: int, gone: bool) -> None:
    controller = talk(script, lambda args: 1, max_tokens=most)
    with contextlib.suppress(RuntimeError):
        list(controller.say("x"))
    kinds = [type(event).__name__ for event in controller._events]
    assert kinds.count("CallDropped") == gone
    if gone:
        assert kinds.index("CallStart") < kinds.index("CallDropped") < kinds.index("TurnEnd")
    check_legal(controller)
