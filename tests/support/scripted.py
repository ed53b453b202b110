"""Run the controller on scripts: sources of ids, tools, and what holds after each turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import mypt_spec
from mypt_infer.controller import Controller, Options, Script, ScriptEnd, replay
from mypt_infer.controller.events import (
    ArgumentsDelta,
    CallDropped,
    CallParsed,
    CallStart,
    Event,
    ToolResult,
    TurnEnd,
)
from mypt_infer.toolbox import Tool, Toolbox
from mypt_spec import Dialect, Episode
from mypt_spec.encoder import tag_ids

ANY: dict[str, Any] = {"type": "object"}  # the schema of tools that take anything
DONE = "Done.</myPT_assistant>"
Kind = TypeVar("Kind")


def tools_of(**functions: Callable[[dict[str, Any]], Any]) -> Toolbox:
    """Returns tools of these names, which take any arguments."""
    return Toolbox([Tool(name, "", ANY, function) for name, function in functions.items()])


def call_text(name: str = "f", arguments: str = "") -> str:
    """Returns what a model of mypt writes to call a tool; `arguments` begin with a comma."""
    return f'<myPT_toolcall>{{"name": "{name}"{arguments}}}</myPT_toolcall>'


def controller_of(
    script: str | Sequence[int],
    tools: Toolbox | None = None,
    dialect: str | Dialect = "mypt",
    **options: Any,
) -> Controller:
    """Returns a controller whose model writes a script; `options` are limits of its turns."""
    ids = ids_of(script, dialect) if isinstance(script, str) else script
    system = "S" if getattr(dialect, "name", dialect) == "mypt" else None
    return Controller(
        Script(ids), tools, dialect=dialect, system=system, options=Options(**options)
    )


def only(events: Iterable[Event], kind: type[Kind]) -> list[Kind]:
    """Returns the events of a kind."""
    return [event for event in events if isinstance(event, kind)]


def turn_end(events: Iterable[Event]) -> TurnEnd:
    """Returns the last event of a turn."""
    *_, last = events
    assert isinstance(last, TurnEnd)
    return last


def text_of(controller: Controller) -> str:
    """Returns all that was written, as text."""
    return controller.history.dialect.tokenizer.decode(controller.history.ids)


def check_legal(controller: Controller, *, tags: bool = False) -> Episode:
    """Asserts that the history is legal and its transcript replays; returns the episode.

    With `tags`, its texts may spell tags.
    """
    d = controller.history.dialect
    episode, findings = d.parse_ids(controller.history.ids)
    assert episode is not None
    assert not findings
    assert tags or not [f for f in d.validate(episode) if f.severity == "error"]
    record = json.loads(json.dumps(controller.record()))
    assert replay(record, controller.dialect)[0].ids == controller.history.ids
    return episode


def run_turn(
    script: str | Sequence[int],
    tools: Toolbox | None = None,
    dialect: str = "mypt",
    *,
    text: str = "Hi",
    **options: Any,
) -> tuple[Controller, list[Event]]:
    """Runs the first turn of `controller_of`, which must be legal; returns its events, too."""
    controller = controller_of(script, tools, dialect, **options)
    events = list(controller.say(text))
    check_legal(controller)
    return controller, events


class Oracle:
    """Draws the next id of a list of ids that the context must be a beginning of."""

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids = list(ids)
        self.context: list[int] = []
        self.drawn = 0

    @property
    def held(self) -> int:
        return len(self.context)

    def append(self, ids: Sequence[int]) -> None:
        self.context += ids
        assert self.context == self.ids[: len(self.context)], (
            "what the model is given is not what was said"
        )

    def next(self, left: int = 0) -> int:
        if len(self.context) == len(self.ids):
            raise ScriptEnd
        self.drawn += 1
        self.append([self.ids[len(self.context)]])
        return self.context[-1]

    def truncate(self, length: int) -> None:
        del self.context[length:]


def ids_of(text: str, dialect: str | Dialect = "mypt") -> list[int]:
    """The ids of a text that a model writes: tags by id, the text between them as ordinary tokens.

    White space after a tag is left out: the program that runs the model puts it in.
    """
    d = mypt_spec.dialect(dialect) if isinstance(dialect, str) else dialect
    out: list[int] = []
    for event in d.lex(text):
        terminal = d.table.terminals.get(event.terminal)
        ids = (
            tag_ids(event, d.table, d.tokenizer)
            if terminal is not None
            else d.tokenizer.encode(event.text)
        )
        space = terminal.spelling[-1] if terminal is not None and terminal.spelling else None
        if space is not None and space.kind == "space":
            behind = d.tokenizer.encode(space.value)
            assert ids[-len(behind) :] == behind
            ids = ids[: -len(behind)]
        out += ids
    return out


def ends_of_calls(events: Iterable[Event]) -> dict[int, str]:
    """Returns how each call ended, by its number: "result", "dropped" or "unanswered".

    Raises AssertionError unless every event of a call has its number, in order: it begins, it is
    written, it is complete, and it has a result; or it is dropped before it has one. A turn that
    ends may leave a complete call unanswered.
    """
    stages: dict[int, str] = {}
    names: dict[int, str] = {}
    for event in events:
        number, before = getattr(event, "call", None), ""
        if number is None:
            continue
        assert number > 0
        before = stages.get(number, "")
        if isinstance(event, CallStart):
            assert number > max(stages, default=0), "no number is given twice"
            stages[number] = "begun"
        elif isinstance(event, ArgumentsDelta):
            assert before == "begun"
        elif isinstance(event, CallParsed):
            # Further calls of a block follow its first one.
            assert before == "begun" or (not before and stages[number - 1] == "parsed")
            stages[number] = "parsed"
        elif isinstance(event, CallDropped):
            assert before in ("begun", "parsed")
            stages[number] = "dropped"
        elif isinstance(event, ToolResult):
            assert before == "parsed"
            stages[number] = "result"
        if not isinstance(event, ArgumentsDelta) and (event.name or before == "parsed"):
            assert names.setdefault(number, event.name) == event.name
    assert "begun" not in stages.values(), stages
    return {n: "unanswered" if s == "parsed" else s for n, s in stages.items()}
