"""What a chat shows. Text of models, users, tools and documents is never markup, and no terminal obeys it."""

from __future__ import annotations

import json
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from mypt_infer.controller.events import (
    CallParsed,
    Cite,
    Event,
    Notice,
    StepEnd,
    TextDelta,
    ThinkDelta,
    ToolResult,
    TurnEnd,
    TurnsDropped,
)
from mypt_spec.lint.render.visible import Display

_LINE = 100  # characters of a call or a result on its line


class Screen:
    """Shows events as they come. `details` are what `/show` expands, `notes` the references of the last answer, both from 1."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.console = Console(file=stream, markup=False, highlight=False, emoji=False)
        self.display = Display(stream)
        self.details: list[str] = []
        self.notes: list[str] = []
        self._column = 0  # whether a line is begun
        self._thought: list[str] = []

    def say(self, text: str, style: str = "") -> None:
        """A line, or several, of ours or anybody's."""
        self._fresh()
        self.console.print(Text(self.display.line(text, keep="\n\t"), style=style), soft_wrap=True)

    def show(self, event: Event) -> None:
        """What a user sees of an event."""
        if self._thought and not isinstance(event, ThinkDelta):
            thought = "".join(self._thought)
            self._thought = []
            self.say(
                f"  thought {len(thought.split())} words [{self._detail(thought)}]", "dim italic"
            )
        if isinstance(event, TextDelta):
            self._write(event.text)
        elif isinstance(event, ThinkDelta):
            self._thought.append(event.text)
        elif isinstance(event, Cite):
            if event.text not in self.notes:
                self.notes.append(event.text)
            self._write(f"[{self.notes.index(event.text) + 1}]", "cyan")
        elif isinstance(event, CallParsed):
            told = ", ".join(f"{key}={_json(value)}" for key, value in event.arguments.items())
            detail = self._detail(json.dumps(event.arguments, ensure_ascii=False, indent=2))
            self.say(f"  {event.name}({_short(told)}) [{detail}]", "yellow")
        elif isinstance(event, ToolResult):
            detail = self._detail(json.dumps(event.value, ensure_ascii=False, indent=2))
            cut = ", shortened" if event.truncated else ""
            self.say(f"  = {_told(event.value)}{cut} [{detail}]", "red" if event.error else "green")
        elif isinstance(event, Notice):
            self.say(f"  note: {event.message}", "dim")
        elif isinstance(event, TurnsDropped):
            self.say(
                f"  note: the context is full; the model does not see the oldest {'turn' if event.turns == 1 else f'{event.turns} turns'} any more",
                "dim",
            )
        elif isinstance(event, StepEnd):
            self._fresh()
        elif isinstance(event, TurnEnd):
            self._end(event)

    def begin(self) -> None:
        """A turn begins."""
        self.notes = []

    def _end(self, event: TurnEnd) -> None:
        for number, note in enumerate(self.notes, 1):
            self.say(f"  [{number}] {note}", "cyan")
        if event.reason != "stop":
            self.say(
                f"  the turn was ended: {event.reason}{f': {event.message}' if event.message else ''}",
                "bold yellow",
            )

    def _detail(self, text: str) -> str:
        self.details.append(text)
        return f"/show {len(self.details)}"

    def _write(self, text: str, style: str = "") -> None:
        shown = self.display.line(text, keep="\n\t")
        self.console.print(Text(shown, style=style), end="", soft_wrap=True)
        self._column = bool(shown) and not shown.endswith("\n")

    def _fresh(self) -> None:
        if self._column:
            self.console.print()
        self._column = False


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _short(text: str) -> str:
    return text if len(text) <= _LINE else text[:_LINE] + "…"


def _told(value: Any) -> str:
    """A result in a few words."""
    if isinstance(value, dict) and isinstance(value.get("error"), dict):
        return _short(f"error {value['error'].get('type')}: {value['error'].get('message')}")
    if isinstance(value, dict) and isinstance(value.get("documents"), list):
        number = len(value["documents"])
        return f"{number} document{'' if number == 1 else 's'}"
    return _short(_json(value))
