"""The command `mypt-chat`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mypt_spec import __version__

if TYPE_CHECKING:
    from mypt_infer.chat.session import Session

DONE, FAILED, INTERRUPTED = 0, 2, 130
DIALECT = "mypt"
SYSTEM = "You are MyPT. Answer questions using workspace tools when needed."

EPILOG = """\
examples:
  mypt-chat --scripted --workspace docs/           a demonstration: no model, but everything else
  mypt-chat --scripted --workspace docs/ --transcript chats.jsonl < questions.txt

/help in the chat shows its commands. Transcripts are records: mypt-lint checks them, mypt-prepare trains on them.
Exit status: 0 done, 2 failure.
"""


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog="mypt-chat",
        description="Chat over a folder of documents: the model searches, reads and cites them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = out.add_argument
    add("--scripted", action="store_true", required=True, help="a stand-in for a model, which searches for what you say and quotes what it finds")
    add("--workspace", metavar="DIR", help="a folder of documents for the tools; without it there are none")
    add("--index-dir", metavar="DIR", help="where its index is kept (default: .mypt-index in the folder)")
    add("--system", metavar="TEXT", help="the system prompt; the tools are added to it")
    add("--transcript", metavar="FILE", help="add the conversation to this file of JSONL when it ends")
    add("--max-steps", type=int, default=3, metavar="N", help="calls and answers of a turn (default: %(default)s)")
    add("--max-tokens", type=int, default=512, metavar="N", help="tokens of a turn that the model draws (default: %(default)s)")
    add("--version", action="version", version=f"mypt-chat {__version__}")
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    chosen = parser().parse_args(argv)
    try:
        return _run(chosen)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return INTERRUPTED


def _run(chosen: argparse.Namespace) -> int:
    from mypt_infer.chat.demo import Demo
    from mypt_infer.chat.screen import Screen
    from mypt_infer.chat.session import Session
    from mypt_infer.controller import Controller, Options, save
    from mypt_infer.tools import Toolbox
    from mypt_infer.workspace import WorkspaceEngine, WorkspaceError, WorkspaceTools, toolbox
    from mypt_infer.workspace.cli import INDEX

    engine, tools = None, Toolbox()
    system = chosen.system or SYSTEM
    try:
        if chosen.workspace is not None:
            base = Path(chosen.workspace)
            engine = WorkspaceEngine(base, Path(chosen.index_dir) if chosen.index_dir else base / INDEX)
            engine.refresh()
            tools = toolbox(WorkspaceTools(engine))
            system += f"\n\n{tools.usage}"
        options = Options(max_steps=chosen.max_steps, max_tokens=chosen.max_tokens)
        source = Demo(DIALECT, calls=len(tools) > 0)
        session = Session(Controller(source, tools, dialect=DIALECT, system=system, options=options), Screen(sys.stdout), engine)
    except (OSError, ValueError, WorkspaceError) as error:
        print(f"mypt-chat: error: {error}", file=sys.stderr)
        return FAILED
    try:
        _talk(session)
    finally:
        if chosen.transcript and session.controller.log.ids:
            save(Path(chosen.transcript), session.controller.record())
    return DONE


def _talk(session: Session) -> None:
    if sys.stdin.isatty():
        session.screen.say("/help shows the commands", "dim")
    while True:
        try:
            line = input("user> " if sys.stdin.isatty() else "")
        except EOFError:
            return
        if line.startswith("/"):
            if not session.command(line):
                return
        elif line.strip():
            session.turn(line)


if __name__ == "__main__":
    sys.exit(main())
