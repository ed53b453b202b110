"""Shows a chat on a terminal.

Input: events. Output: lines. Text of models, users, tools and documents is never markup, and cannot
control the terminal.
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from mypt_cli.terminal import Display
from mypt_cli.words import counted
from mypt_infer.controller import events
from mypt_spec.bodies.strict_json import shortened

# The most characters of a call or a result on its line.
_LINE = 100


class Screen:
    """Shows events as they come.

    `details` are what `/show` expands, `notes` the references of the last answer, both counted from
    1. Steps (thoughts, calls and results) are shown as they come if `verbose`, and kept for `steps`
    if not. `named` says what a reference is shown as.
    """

    def __init__(
        self, stream: TextIO, *, verbose: bool = False, name_of: Callable[[str], str] = str
    ) -> None:
        self.stream, self.verbose, self._name_of = stream, verbose, name_of
        self.console = Console(file=stream, markup=False, highlight=False, emoji=False)
        self.display = Display(stream)
        self.details: list[str] = []
        self.notes: list[str] = []
        self._steps: list[tuple[str, str]] = []  # text and style of each step of the turn
        self._column = False  # whether a line is begun
        self._is_named = False  # whether the line says that the assistant speaks
        self._has_answer = False
        self._thought: list[str] = []
        self._waiting = False  # whether a line says what is waited for
        self._waits = stream.isatty() and self.console.is_terminal

    def say(self, text: str, style: str = "") -> None:
        """Shows a text, on one line or several."""
        self._begin_line()
        self._is_named = False
        self.console.print(Text(self.display.line(text, keep="\n\t"), style=style), soft_wrap=True)

    def show(self, event: events.Event) -> None:
        """Shows what a user is to see of an event."""
        if self._thought and not isinstance(event, events.ThinkDelta):
            thought = "".join(self._thought)
            self._thought = []
            self._step(
                f"  thought {len(thought.split())} words [{self._detail(thought)}]", "dim italic"
            )
        if isinstance(event, events.TextDelta):
            self._write(event.text)
        elif isinstance(event, events.ThinkDelta):
            self._thought.append(event.text)
        elif isinstance(event, events.Cite):
            if event.text not in self.notes:
                self.notes.append(event.text)
            self._write(f"[{self.notes.index(event.text) + 1}]", "cyan")
        elif isinstance(event, events.CallParsed):
            arguments = ", ".join(f"{key}={_json(value)}" for key, value in event.arguments.items())
            detail = self._detail(json.dumps(event.arguments, ensure_ascii=False, indent=2))
            self._step(f"  {event.name}({shortened(arguments, _LINE)}) [{detail}]", "yellow")
            self._wait(event.name)
        elif isinstance(event, events.CallDropped):
            self._step("  a call was taken off before it was complete", "red")
        elif isinstance(event, events.ToolResult):
            detail = self._detail(json.dumps(event.value, ensure_ascii=False, indent=2))
            note = ", shortened" if event.truncated else ""
            style = "red" if event.error else "green"
            self._step(f"  = {_summary(event.value)}{note} [{detail}]", style)
            self._wait("thinking")
        elif isinstance(event, events.Notice):
            self.say(f"  note: {event.message}", "dim")
        elif isinstance(event, events.TurnsDropped):
            turns = "turn" if event.turns == 1 else f"{event.turns} turns"
            problem = f"the context is full; the model does not see the oldest {turns} any more"
            self.say(f"  note: {problem}", "dim")
        elif isinstance(event, events.StepEnd):
            self._begin_line()
        elif isinstance(event, events.TurnEnd):
            self._end(event)

    def begin(self) -> None:
        self.notes, self._steps = [], []
        self._is_named = self._has_answer = False
        self._wait("thinking")

    def stopping(self) -> None:
        """Says at once that the turn is being stopped. May be called by a signal handler."""
        text = f"{chr(10) if self._column or self._waiting else ''}  stopping\n"
        self._column = self._waiting = False
        try:  # a stream that is being written to cannot be entered again
            os.write(self.stream.fileno(), text.encode())
        except (OSError, ValueError):
            with suppress(OSError, ValueError, RuntimeError):
                self.stream.write(text)

    def recall(self, question: str, answer: str) -> None:
        """Shows a turn of the past."""
        self.say(f"user> {question}", "dim")
        self.say(f"assistant> {answer.strip() or '(nothing)'}", "dim")

    def forget(self) -> None:
        """Begins a conversation."""
        self.begin()
        self.details.clear()

    def steps(self) -> None:
        """Shows the steps of the last turn."""
        for text, style in self._steps or [("the last turn had no steps", "")]:
            self.say(text, style)

    def _step(self, text: str, style: str) -> None:
        self._steps.append((text, style))
        if self.verbose:
            self.say(text, style)

    def _wait(self, label: str) -> None:
        """Shows what is waited for, on a line that what comes next replaces."""
        if self._waits:
            self._begin_line()
            dots = self.display.ellipsis
            self.console.print(Text(f"  {self.display.line(label)}{dots}", style="dim"), end="")
            self._waiting = True

    def _name(self) -> None:
        self._arrived()
        self._is_named = self._has_answer = self._column = True
        self.console.print(Text("assistant> ", style="bold"), end="")

    def _end(self, event: events.TurnEnd) -> None:
        if event.reason == "stop" and not self._has_answer:
            self._name()  # an empty answer, which some formats allow
            self._begin_line()
        for number, note in enumerate(self.notes, 1):
            self.say(f"  [{number}] {self._name_of(note)}", "cyan")
        if event.reason != "stop":
            explanation = f": {event.message}" if event.message else ""
            self.say(f"  the turn was ended: {event.reason}{explanation}", "bold yellow")

    def _detail(self, text: str) -> str:
        self.details.append(text)
        return f"/show {len(self.details)}"

    def _write(self, text: str, style: str = "") -> None:
        visible = self.display.line(text, keep="\n\t")
        if not self._is_named:
            visible = visible.lstrip("\n")
            if not visible:
                return
            self._name()
        self.console.print(Text(visible, style=style), end="", soft_wrap=True)
        self._column = bool(visible) and not visible.endswith("\n")

    def _arrived(self) -> None:
        if self._waiting:
            self.stream.write("\r\x1b[K")
        self._waiting = False

    def _begin_line(self) -> None:
        self._arrived()
        if self._column:
            self.console.print()
        self._column = False


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _summary(value: Any) -> str:
    """Returns a result in a few words."""
    if isinstance(value, dict) and isinstance(value.get("error"), dict):
        error = value["error"]
        return shortened(f"error {error.get('type')}: {error.get('message')}", _LINE)
    if isinstance(value, dict) and isinstance(value.get("documents"), list):
        return counted(len(value["documents"]), "document")
    return shortened(_json(value), _LINE)
