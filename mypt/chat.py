"""Runs `mypt-chat`: a chat on the terminal."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mypt.options import options
from mypt_cli.command import Command
from mypt_infer.chat.opening import from_arguments

if TYPE_CHECKING:
    from mypt_infer.chat.session import Session

DONE, FAILED = 0, 2

PROG = "mypt-chat"
_AGAIN = 5.0  # seconds, in which all is kept and the terminal whole


def _run(chosen: argparse.Namespace) -> int:
    from mypt_infer.chat import commands
    from mypt_infer.chat.prompt import prompt
    from mypt_infer.chat.screen import Screen
    from mypt_infer.chat.session import Session, place

    transcript = Path(chosen.transcript) if chosen.transcript else None
    if transcript is not None and not transcript.absolute().parent.is_dir():
        raise ValueError(f"--transcript {transcript}: its folder does not exist")
    setup, engine = from_arguments(chosen)
    screen = Screen(sys.stdout, verbose=chosen.verbose, name_of=lambda note: place(engine, note))
    session = Session(setup, screen, engine, transcript=transcript)
    session.prompt = prompt(commands.NAMES, lambda text: screen.say(text, "dim"))
    with _leaving():
        try:
            if chosen.resume is not None:
                session.load(chosen.resume)
            if sys.stdin.isatty():
                screen.say("/help shows the commands", "dim")
            _talk(session)
        finally:
            is_saved = session.keep()
    return DONE if is_saved else FAILED


def _talk(session: Session) -> None:
    from mypt_infer.chat import commands

    assert session.prompt is not None
    with suppress(EOFError):
        while True:
            try:
                line = session.prompt.read()
                if line.startswith("/"):
                    if not commands.run(session, line):
                        return
                elif line.strip():
                    session.turn(line)
            except KeyboardInterrupt as pressed:  # between a turn and the prompt
                session.prompt.interrupted(pressed)


@contextmanager
def _leaving() -> Iterator[None]:
    """Makes signals that end a process leave the chat, so that all is kept and the terminal whole.

    Without this, a closed window ends the process in the middle of a turn. An exception that is
    raised where Python frees an object is lost, so it is raised again until it has been heard.
    """
    signals: list[int] = []

    def leave(number: int, frame: Any) -> None:
        if not signals:
            signals.append(number)
            signal.setitimer(signal.ITIMER_REAL, _AGAIN, _AGAIN)
        raise SystemExit(128 + signals[0])

    before = {}
    for name in ("SIGTERM", "SIGHUP", "SIGALRM"):
        with suppress(AttributeError, ValueError):  # no such signal, or not the main thread
            number = getattr(signal, name)
            before[number] = signal.signal(number, leave)
    try:
        yield
    finally:
        if signals:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


main = Command(PROG, __file__, options(__file__), _run, quiet="", errors=(ValueError,))

if __name__ == "__main__":
    sys.exit(main())
