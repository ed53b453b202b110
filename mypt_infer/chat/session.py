"""Runs a chat: turns, and conversations, each of which is kept and can be continued."""

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from mypt_infer.chat.journal import Journal
from mypt_infer.chat.opening import Setup
from mypt_infer.chat.prompt import Prompt
from mypt_infer.chat.screen import Screen
from mypt_infer.controller import Controller
from mypt_infer.controller.history import History
from mypt_infer.controller.transcript import KEY
from mypt_infer.workspace import Chunk, Document, WorkspaceEngine

# The turns of a past conversation that are shown.
_RECALLED = 3


class Session:
    """One chat on one screen; `controller` is the conversation that goes on.

    With a file of transcripts, each conversation is kept in it, also when the process is killed.
    """

    def __init__(
        self,
        setup: Setup,
        screen: Screen,
        engine: WorkspaceEngine | None = None,
        *,
        transcript: Path | None = None,
        prompt: Prompt | None = None,
    ) -> None:
        self.setup, self.screen, self.engine, self.prompt = setup, screen, engine, prompt
        self.controller = setup.new()
        self.journal = Journal(transcript) if transcript is not None else None
        # What /save has written of this conversation, by file.
        self.saved: dict[Path, bytes] = {}

    @property
    def turns(self) -> int:
        """Returns the number of turns of the conversation."""
        return len(self.controller.replies.turns)

    def turn(self, text: str) -> None:
        """Takes a text of the user, shows the answer as it comes, and keeps both."""
        self.screen.begin()
        try:
            with _interrupts(self.controller, self.screen.stopping):
                for event in self.controller.say(text):
                    self.screen.show(event)
        except KeyboardInterrupt:
            self.screen.say("  interrupted", "bold yellow")
        except ValueError as error:
            self.screen.say(f"not said: {error}", "bold red")
        except Exception as error:
            self.screen.say(f"the model failed: {type(error).__name__}: {error}", "bold red")
        self._write_journal()

    def exchanges(self) -> list[tuple[str, str]]:
        """Returns the texts of the user and the answers so far."""
        answers: list[str] = []
        for kind, fields in self.controller.record()[KEY]["events"]:
            if kind == "TurnStart":
                answers.append("")
            elif kind == "TextDelta":
                answers[-1] += fields["text"]
        history = self.controller.history
        turns = [history.ids[a:b] for a, b in pairwise([*history.turns, len(history.ids)])]
        questions = [_first(history, ids, "user") for ids in turns]
        return list(zip(questions, answers, strict=True))

    @property
    def question(self) -> str:
        """Returns the last text of the user. Raises ValueError if there is none."""
        if not self.turns:
            raise ValueError("nothing was said yet")
        return self.exchanges()[-1][0]

    def undo(self) -> str:
        """Takes the last turn back; returns its question. Raises ValueError if there is none."""
        question, record = self.question, self.controller.record()
        if self.turns == 1:
            self.controller = self.setup.new()
        else:
            self.controller = self.setup.past(record, self.turns - 1)
        self.screen.forget()
        self._write_journal()
        return question

    def begin(self, setup: Setup | None = None) -> bool:
        """Begins a new conversation; returns False if the last one could not be kept."""
        is_saved = self.keep()
        self.setup = setup or self.setup
        self.controller, self.saved = self.setup.new(), {}
        if self.journal is not None:
            self.journal.replaces(b"")
        self.screen.forget()
        return is_saved

    def load(self, place: str) -> None:
        """Continues a conversation of a file, `FILE` or `FILE:N`, and shows its last turns.

        If it is kept in the same file, it takes the place of its line there. Raises OSError or
        ValueError, before anything changes, if there is none that can be continued.
        """
        record, path, line = find(place)
        controller = self.setup.past(record)
        self.begin()
        self.controller = controller
        if self.journal is not None and self.journal.path == path.resolve():
            self.journal.replaces(line)
        exchanges = self.exchanges()
        if len(exchanges) > _RECALLED:
            self.screen.say(f"({len(exchanges) - _RECALLED} turns before)", "dim")
        for question, answer in exchanges[-_RECALLED:]:
            self.screen.recall(question, answer)
        system = _first(controller.history, controller.history.ids[: controller.history.head])
        if system != (self.setup.prompt or ""):
            self.screen.say("note: the conversation keeps its own system prompt", "dim")

    def keep(self) -> bool:
        """Ends the conversation in the file of transcripts; returns False if that fails."""
        if self.journal is None:
            return True
        self._write_journal()
        line = self.journal.line
        try:
            if self.journal.end():
                self.left_out(self.journal.path)
                self.journal.replaces(line)  # should this conversation go on
        except OSError as error:
            self._report(f"not saved: {error}")
            return False
        return True

    def save(self, path: Path) -> str:
        """Adds the conversation to a file; returns what happened. Raises OSError.

        A second time, it takes the place of what was added before.
        """
        if not self.turns:
            return "nothing was said yet"
        journal = Journal(path)
        if self.journal is not None and self.journal.path == journal.path:
            return f"{path} is the file of --transcript: it is there after each turn"
        before = self.saved.get(journal.path)
        record = self.controller.record()
        if before is not None:
            journal.replaces(before)
        journal.put(record)
        self.saved[journal.path] = journal.line
        journal.end()
        self.left_out(path)
        return f"added to {path}"

    def left_out(self, path: Path) -> None:
        """Says which turns of the conversation are no training data."""
        left_out = self.controller.record()[KEY].get("left_out", [])
        for number, reason in left_out:
            self._report(f"{path}: turn {number} is left out: {reason}")
        if left_out and len(left_out) == len(self.controller.history.turns):
            self._report(f"{path}: no turn of it can be trained on")

    def _write_journal(self) -> None:
        if self.journal is None:
            return
        try:
            self.journal.put(self.controller.record() if self.turns else None)
        except OSError as error:
            self._report(f"not kept until the chat ends: {error}")

    def _report(self, text: str) -> None:
        with suppress(OSError):  # the terminal may be gone
            print(f"mypt-chat: {text}", file=sys.stderr)


def source_of(engine: WorkspaceEngine | None, note: str) -> tuple[Document | None, Chunk | None]:
    """Returns the document that a reference names, and the chunk of it if it names one."""
    chunk = engine.get_chunk(note) if engine is not None else None
    doc_id = note if chunk is None else chunk.doc_id
    return engine.get_doc(doc_id) if engine is not None else None, chunk


def place(engine: WorkspaceEngine | None, note: str) -> str:
    """Returns what a reference is shown as: title and file of a document, if it names one."""
    doc, chunk = source_of(engine, note)
    if doc is None:
        return note
    part = f", part {chunk.position + 1}" if chunk is not None and chunk.position else ""
    return f"{doc.title} ({doc.path}{part})"


def find(place: str) -> tuple[dict[str, Any], Path, bytes]:
    """Returns a record, its file and its line: the last one, or, for `FILE:N`, that of line N.

    Raises OSError, or ValueError saying where there is no conversation that can be continued.
    """
    name, _, number = place.rpartition(":")
    path, nth = Path(place).expanduser(), 0
    if name and number.isascii() and number.isdigit() and not path.exists():
        path, nth = Path(name).expanduser(), int(number)
    match = None
    with path.open("rb") as file:
        for at, line in enumerate(file, 1):
            if at == nth or (not nth and f'"{KEY}"'.encode() in line):
                match = at, line
            if at == nth:
                break
    if match is None:
        none = f"no line {nth}" if number and nth else "no conversation of a chat"
        raise ValueError(f"{path}: it has {none}")
    at, line = match
    try:
        record = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{path}:{at}: this is not valid JSON: {error}") from None
    if not isinstance(record, dict) or KEY not in record:
        raise ValueError(
            f'{path}:{at}: this record has no "{KEY}"; only what a chat has kept can be continued'
        )
    return record, path, line


def _first(history: History, ids: list[int], block: str = "") -> str:
    """Returns the first text in a block, of a kind if one is named; "" if there is none."""
    texts = history.format.texts_in(history.dialect.lex_ids(ids)[0])
    return next((text for kind, text in texts if kind and block in ("", kind)), "")


@contextmanager
def _interrupts(controller: Controller, stopping: Callable[[], None]) -> Iterator[None]:
    """Makes Ctrl-C end the turn, and a second Ctrl-C interrupt what runs."""
    pressed = False

    def press(number: int, frame: Any) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True
        controller.cancel()
        stopping()

    try:
        before = signal.signal(signal.SIGINT, press)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
