"""Reads what a user says: on a terminal with editing and history, from a pipe line by line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

PROMPT = "user> "
# Commands whose argument is the name of a file.
_FILES = ("/load", "/save")
_LEAVE = "(Ctrl-C again or Ctrl-D leaves)"


class Prompt:
    """Reads texts: `ask` returns one, given a text to begin with.

    It raises EOFError to leave, and KeyboardInterrupt for Ctrl-C, with the argument True if that
    took back a text. Without a `hint`, which shows a text, the first Ctrl-C leaves.
    """

    def __init__(
        self, ask: Callable[[str], str], *, hint: Callable[[str], None] | None = None
    ) -> None:
        self._ask, self._hint, self._pressed = ask, hint, False

    def read(self) -> str:
        """Returns what the user says next. Raises EOFError at the end, and after Ctrl-C twice."""
        while (text := self.edit("")) is None:
            pass
        return text

    def edit(self, text: str) -> str | None:
        """Returns what the user makes of a text; None after Ctrl-C. Raises EOFError as `read`."""
        try:
            line = self._ask(text)
        except KeyboardInterrupt as pressed:
            self.interrupted(pressed)
            return None
        self._pressed = False
        return line

    def interrupted(self, pressed: KeyboardInterrupt) -> None:
        """Notes a Ctrl-C. Raises EOFError if it leaves."""
        if self._hint is None:
            raise pressed
        if self._pressed and True not in pressed.args:
            raise EOFError from None
        self._pressed = True
        self._hint(_LEAVE)


def prompt(commands: Sequence[str], hint: Callable[[str], None]) -> Prompt:
    """Returns a Prompt for stdin; `commands` can be completed, and `hint` shows a text."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return Prompt(lambda text: input())
    try:
        import prompt_toolkit  # noqa: F401
    except ImportError:
        hint("for several lines and a history: pip install 'mypt-tags[infer]'")
        with suppress(ImportError):
            import readline  # noqa: F401  # input() is without editing, and cuts lines, otherwise
        return Prompt(lambda text: input(PROMPT), hint=hint)
    return Prompt(typed(history_file(), commands), hint=hint)


def history_file() -> Path | None:
    """Returns the file of what was typed, which only the user can read; None if it has none."""
    home = "~/Library/Application Support" if sys.platform == "darwin" else "~/.local/state"
    state_home = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        folder = (state_home if state_home.is_absolute() else Path(home).expanduser()) / "mypt-tags"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / "chat_history"
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.fchmod(handle, 0o600)
        os.close(handle)
    except (OSError, RuntimeError):
        return None
    return path


def typed(history: Path | None, commands: Sequence[str] = ()) -> Callable[[str], str]:
    """Returns an `ask` of `Prompt` for a terminal.

    Enter ends a text; Alt-Enter, and Enter after a backslash, begin a line of it. What is pasted
    is one text, however many lines it has.
    """
    from prompt_toolkit import PromptSession
    from prompt_toolkit.shortcuts import CompleteStyle

    session: PromptSession[str] = PromptSession(
        PROMPT,
        history=_history(history),
        multiline=True,
        key_bindings=_keys(),
        prompt_continuation=lambda width, number, wrapped: " " * width,
        completer=_completer(commands),
        complete_while_typing=False,
        complete_style=CompleteStyle.READLINE_LIKE,
        enable_suspend=True,
    )

    def ask(text: str) -> str:
        try:
            return session.prompt(default=text)
        except SystemExit:  # a signal's, anywhere, also in the middle of drawing
            with suppress(OSError):
                session.output.disable_bracketed_paste()
                session.output.show_cursor()
                session.output.flush()
            raise

    return ask


def _completer(commands: Sequence[str]) -> Completer:
    """Returns what completes commands, and names of files after those that take one."""
    from prompt_toolkit.completion import Completer, Completion, PathCompleter
    from prompt_toolkit.document import Document

    class Commands(Completer):
        def get_completions(self, document: Document, event: Any) -> Iterator[Completion]:
            name, space, argument = document.text_before_cursor.partition(" ")
            if not space:
                for command in commands:
                    if name and command.startswith(name):
                        yield Completion(command, -len(name))
            elif name in _FILES:
                yield from PathCompleter(expanduser=True).get_completions(Document(argument), event)

    return Commands()


def _history(path: Path | None) -> History:
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    class SafeHistory(FileHistory):
        def store_string(self, string: str) -> None:
            with suppress(OSError):  # a full disk does not end a chat
                super().store_string(string)

    return InMemoryHistory() if path is None else SafeHistory(str(path))


def _keys() -> KeyBindings:
    from prompt_toolkit.filters import is_searching
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.is_cursor_at_the_end and buffer.text.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("c-c", filter=~is_searching)
    @keys.add("<sigint>")
    def _(event: KeyPressEvent) -> None:
        taken_back = bool(event.current_buffer.text)
        event.app.exit(exception=KeyboardInterrupt(taken_back), style="class:aborting")

    return keys
