"""The borders of the agent loop to outside code: tools, sources, and whoever listens.

Whatever they do, the history is legal, the conversation goes on, and its transcript replays.
"""

from __future__ import annotations

import json
from typing import Any

from mypt_infer.controller import Controller, Options, Script, replay
from mypt_infer.controller.events import CallParsed, Event, ToolResult, TurnEnd
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
