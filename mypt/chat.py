"""Runs `mypt-chat`: a chat on the terminal."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mypt_cli.command import Command
from mypt_cli.parser import Parser
from mypt_cli.store.gguf import model_path
from mypt_infer.chat.opening import DIALECT, from_arguments

if TYPE_CHECKING:
    from mypt_infer.chat.session import Session

DONE, FAILED = 0, 2

PROG = "mypt-chat"
ABOUT = "Chat over a folder of documents: the model searches, reads and cites them."
_AGAIN = 5.0  # seconds, in which all is kept and the terminal whole


def _options(out: Parser) -> None:
    add = out.group("input")
    add.model("--model --model_ckpt DIR", model_path, DIALECT, required=False)
    add(
        "--scripted",
        "a stand-in for a model, which searches for what you say and quotes what it finds",
    )
    add(
        "--workspace --workspace_dir DIR",
        "a folder of documents for the tools; without it there are none",
    )
    add("--index-dir --index_dir DIR", "where its index is kept (default: as mypt-index says)")
    add("--system TEXT", "the system prompt; the tools are added to it")
    add("--resume FILE[:N]", "continue the last conversation of transcripts, or that of line N")
    add = out.group("limits")
    add("--max-steps N", "calls and answers of a turn", type=int, default=5)
    add("--max-tokens N", "tokens of a turn that the model draws", type=int, default=512)
    add("--max-think-tokens N", "tokens of a thought", type=int, default=256)
    add("--no-think", "the model answers or calls at once, without a thought")
    add("--max-toolcall-tokens N", "tokens of a call", type=int, default=128)
    add("--max-result-tokens N", "tokens of a tool's result", type=int, default=1024)
    add("--tool-seconds S", "seconds that a tool may take", type=float, default=30.0)
    add(
        "--context-length N",
        "ids that the model sees; the oldest turns are left out (default: what its config.json "
        "says)",
        type=int,
    )
    out.group("sampling").sampling(0.7)
    add = out.group("performance")
    add("--device DEVICE", "where the model runs", default="cpu")
    add = out.group("output")
    add("--transcript FILE", "add each conversation to this file of JSONL, one line each")
    add("-v --verbose", "show what is thought, called and found as it comes, not only the answer")


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


main = Command(PROG, ABOUT, __file__, _options, _run, quiet="", errors=(ValueError,))

if __name__ == "__main__":
    sys.exit(main())
