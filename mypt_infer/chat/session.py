"""Runs a chat: turns, and commands that begin with a slash."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mypt_infer.chat.screen import Screen
from mypt_infer.controller import Controller, save
from mypt_infer.controller.transcript import KEY, trainable
from mypt_infer.workspace import WorkspaceEngine

HELP = """\
/show       what was thought, called and found last; /show N: in full
/open N     the chunk of a reference
/tools      the tools
/why        how the last turn ended, and who wrote what
/mask       the conversation, trained and masked
/save FILE  add the transcript to a file of JSONL
/reset      a new conversation
/quit       leave (or end of input)
Ctrl-C ends the turn; what was said stays, and the history is legal. Twice: leaves."""


class Session:
    """One chat on one screen."""

    def __init__(
        self,
        controller: Controller,
        screen: Screen,
        engine: WorkspaceEngine | None,
        *,
        transcript: Path | None = None,
    ) -> None:
        self.controller, self.screen, self.engine = controller, screen, engine
        self.transcript = transcript

    def turn(self, text: str) -> None:
        """Takes a text of the user, and shows the answer as it comes."""
        self.screen.begin()
        try:
            with _interrupts(self.controller):
                for event in self.controller.say(text):
                    self.screen.show(event)
        except ValueError as error:
            self.screen.say(f"not said: {error}", "bold red")
        except Exception as error:
            self.screen.say(f"the model failed: {type(error).__name__}: {error}", "bold red")

    def command(self, line: str) -> bool:
        """Runs a command; returns whether the chat continues."""
        name, _, rest = line[1:].partition(" ")
        rest = rest.strip()
        if name in ("quit", "exit"):
            return False
        known = {
            "show": self._show,
            "open": self._open,
            "tools": self._tools,
            "mask": self._mask,
            "why": self._why,
            "save": self._save,
            "reset": self._reset,
        }
        if name not in known:
            self.screen.say(HELP if name == "help" else f"no command /{name}; there are:\n{HELP}")
        else:
            known[name](rest)
        return True

    def _show(self, rest: str) -> None:
        if not rest:
            self.screen.steps()
            return
        found = _pick(self.screen.details, rest)
        self.screen.say(
            found
            if found is not None
            else f"/show takes a number from 1 to {len(self.screen.details)}"
        )

    def _open(self, rest: str) -> None:
        note = _pick(self.screen.notes, rest)
        if note is None:
            self.screen.say(f"/open takes a number from 1 to {len(self.screen.notes)}")
            return
        chunk = self.engine.get_chunk(note) if self.engine is not None else None
        doc = (
            self.engine.get_doc(chunk.doc_id if chunk is not None else note)
            if self.engine is not None
            else None
        )
        if doc is None or self.engine is None:
            self.screen.say(f"{note}: the workspace has no such chunk or document")
            return
        self.screen.say(f"{doc.title}  ({doc.path})", "bold")
        self.screen.say(
            (chunk.text if chunk is not None else self.engine.get_doc_text(doc.doc_id) or "").strip(
                "\n"
            )
        )

    def _tools(self, rest: str) -> None:
        self.screen.say(
            self.controller.tools.usage
            if len(self.controller.tools)
            else "no tools: start with --workspace DIR"
        )

    def _mask(self, rest: str) -> None:
        from mypt_view.items import Item
        from mypt_view.terminal import Terminal

        history = self.controller.history
        ids, left_out = trainable(history)
        for number, reason in left_out:
            self.screen.say(f"turn {number} is not trained: {reason}")
        episode, findings = history.dialect.parse_ids(ids)
        if episode is None:
            self.screen.say(
                "nothing was said yet" if not history.ids else "nothing of it is trained"
            )
            return
        findings += history.dialect.validate(episode)
        item = Item(
            "the history",
            history.dialect,
            episode,
            tuple(history.dialect.segments(episode)),
            tuple(findings),
        )
        Terminal(self.screen.stream).show(item, "mask")

    def _why(self, rest: str) -> None:
        end, history = self.controller.last_end, self.controller.history
        if end is None:
            self.screen.say("no turn has ended yet")
            return
        said: Counter[str] = Counter()
        for origin, number in history.origins:
            said[origin] += number
        self.screen.say(
            f"the last turn ended with {end.reason!r}{f': {end.message}' if end.message else ''}"
        )
        self.screen.say(
            "ids in the history: "
            + ", ".join(f"{number} {origin}" for origin, number in said.items())
        )
        hidden = history.first
        self.screen.say(
            f"the model sees {len(history)} ids"
            + (f"; {hidden} turns are dropped" if hidden else "")
        )
        for dropped in history.dropped:
            ids = [i for i in dropped.ids if _known(history, i)]
            text = history.dialect.tokenizer.decode(ids)
            self.screen.say(f"taken off at {dropped.at}: {text!r}")

    def _save(self, rest: str) -> None:
        if not rest:
            self.screen.say("/save takes the name of a file")
        elif self._add(Path(rest)):
            self.screen.say(f"added to {rest}")

    def keep(self) -> bool:
        """Adds the conversation to the file of transcripts; returns False if that fails."""
        return (
            self.transcript is None or not self.controller.history.ids or self._add(self.transcript)
        )

    def _add(self, path: Path) -> bool:
        """Adds the conversation to a file; returns whether that worked.

        Also says which of its turns are no training data.
        """
        if not self.controller.history.ids:
            self.screen.say("nothing was said yet")
            return False
        record = self.controller.record()
        try:
            save(path, record)
        except OSError as error:
            print(f"mypt-chat: not saved: {error}", file=sys.stderr)
            return False
        left_out = record[KEY].get("left_out", [])
        for number, reason in left_out:
            print(f"mypt-chat: {path}: turn {number} is left out: {reason}", file=sys.stderr)
        if left_out and len(left_out) == len(self.controller.history.turns):
            print(f"mypt-chat: {path}: no turn of it can be trained on", file=sys.stderr)
        return True

    def _reset(self, rest: str) -> None:
        self.keep()
        self.controller.reset()
        self.screen.forget()
        self.screen.say("a new conversation")


def _pick(items: list[str], number: str) -> str | None:
    return (
        items[int(number) - 1]
        if number.isascii()
        and number.isdigit()
        and len(number) < 7
        and 1 <= int(number) <= len(items)
        else None
    )


def _known(history: Any, token: int) -> bool:
    return (
        0 <= token < history.dialect.tokenizer.ordinary
        or token in history.dialect.tokenizer.special.values()
    )


@contextmanager
def _interrupts(controller: Controller) -> Iterator[None]:
    """Makes Ctrl-C end the turn, and a second Ctrl-C interrupt what runs."""
    pressed = False

    def press(number: int, frame: Any) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True
        controller.cancel()

    try:
        before = signal.signal(signal.SIGINT, press)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
