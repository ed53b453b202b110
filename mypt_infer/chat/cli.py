"""The command `mypt-chat`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mypt_spec import Dialect, __version__, dialect
from mypt_spec.ranks import FILE as VOCABULARY
from mypt_spec.ranks import VocabularyError

if TYPE_CHECKING:
    from mypt_infer.chat.session import Session
    from mypt_infer.controller import Source
    from mypt_infer.tools import Toolbox

DONE, FAILED, INTERRUPTED = 0, 2, 130
DIALECT = "mypt"
SYSTEM = "You are MyPT. Answer questions using workspace tools when needed."

EPILOG = """\
examples:
  mypt-chat --scripted --workspace docs/           a demonstration: no model, but everything else
  mypt-chat --scripted --workspace docs/ --transcript chats.jsonl < questions.txt
  mypt-chat --model runs/7m --workspace docs/      a model, decoded within the format

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
    source = out.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--model",
        metavar="DIR",
        help="config.json and *.safetensors of a Llama; needs the extra infer",
    )
    source.add_argument(
        "--scripted",
        action="store_true",
        help="a stand-in for a model, which searches for what you say and quotes what it finds",
    )
    add(
        "--workspace",
        metavar="DIR",
        help="a folder of documents for the tools; without it there are none",
    )
    add(
        "--index-dir",
        metavar="DIR",
        help="where its index is kept (default: .mypt-index in the folder)",
    )
    add("--system", metavar="TEXT", help="the system prompt; the tools are added to it")
    add(
        "--transcript",
        metavar="FILE",
        help="add the conversation to this file of JSONL when it ends",
    )
    add(
        "--max-steps",
        type=int,
        default=3,
        metavar="N",
        help="calls and answers of a turn (default: %(default)s)",
    )
    add(
        "--max-tokens",
        type=int,
        default=512,
        metavar="N",
        help="tokens of a turn that the model draws (default: %(default)s)",
    )
    add(
        "--max-think-tokens",
        type=int,
        default=256,
        metavar="N",
        help="tokens of a thought (default: %(default)s)",
    )
    add(
        "--no-think",
        action="store_true",
        help="the model answers or calls at once, without a thought",
    )
    add(
        "--max-toolcall-tokens",
        type=int,
        default=128,
        metavar="N",
        help="tokens of a call (default: %(default)s)",
    )
    add(
        "--context-length",
        type=int,
        metavar="N",
        help="ids that the model sees; the oldest turns are left out (default: what its config.json says)",
    )
    add(
        "--temperature",
        type=float,
        default=0.7,
        metavar="T",
        help="0 takes the best (default: %(default)s); calls always do",
    )
    add("--top-p", type=float, metavar="P", help="choose among the best that hold a share P")
    add("--seed", type=int, help="the same answers again")
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
            engine = WorkspaceEngine(
                base, Path(chosen.index_dir) if chosen.index_dir else base / INDEX
            )
            engine.refresh()
        played = _Played(chosen) if chosen.model is not None else None
        if engine is not None:
            tools = toolbox(
                WorkspaceTools(
                    engine, **({"summarizer": played.summarizer()} if played is not None else {})
                )
            )
            system += f"\n\n{tools.usage}"
        limits = {
            "max_think_tokens": chosen.max_think_tokens,
            "max_toolcall_tokens": chosen.max_toolcall_tokens,
        }
        length = chosen.context_length or (played.context_length if played is not None else None)
        options = Options(
            max_steps=chosen.max_steps,
            max_tokens=chosen.max_tokens,
            context_length=length,
            think=False if chosen.no_think else None,
            **limits,
        )
        source = _demo(tools) if played is None else played.source(tools, limits)
        spoken: str | Dialect = DIALECT if played is None else played.dialect
        controller = Controller(
            source, tools, dialect=spoken, system=system, options=options, seed=chosen.seed
        )
        session = Session(controller, Screen(sys.stdout), engine)
    except (OSError, ValueError, WorkspaceError, VocabularyError) as error:
        print(f"mypt-chat: error: {error}", file=sys.stderr)
        return FAILED
    try:
        _talk(session)
    finally:
        if chosen.transcript and session.controller.log.ids:
            save(Path(chosen.transcript), session.controller.record())
    return DONE


class _Played:
    """A model folder, and what the chat needs of it."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        try:
            import torch  # noqa: F401
        except ImportError:
            raise ValueError(
                "running a model needs torch: pip install 'mypt-tags[infer]'"
            ) from None
        from mypt_infer.decode.llama import load
        from mypt_infer.decode.sample import Sampling
        from mypt_model.folder import beside

        own = beside(chosen.model, VOCABULARY)
        self.dialect = dialect(DIALECT, vocabulary=own)
        self.model, self.seed = load(chosen.model), chosen.seed
        self.sampling = Sampling(temperature=chosen.temperature, top_p=chosen.top_p)
        self.context_length: int | None = self.model.config.max_position_embeddings

    def source(self, tools: Toolbox, limits: dict[str, int]) -> Source:
        from mypt_infer.controller.model import ModelSource
        from mypt_infer.decode.decoder import Decoder

        calls = limits["max_toolcall_tokens"] if len(tools) else None
        decoder = Decoder(
            self.dialect,
            tools.schemas,
            max_think_tokens=limits["max_think_tokens"],
            max_toolcall_tokens=calls,
        )
        return ModelSource(self.model, decoder, sampling=self.sampling, seed=self.seed)

    def summarizer(self) -> Callable[[str], str]:
        from mypt_infer.workspace.model_summary import summarizer

        return summarizer(self.model, self.dialect)


def _demo(tools: Toolbox) -> Source:
    from mypt_infer.chat.demo import Demo

    return Demo(DIALECT, calls=len(tools) > 0)


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
