"""Runs `mypt-chat`: a chat on the terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mypt_cli.command import Command
from mypt_cli.parser import Parser
from mypt_cli.progress import Bar
from mypt_infer.run_format import format_of
from mypt_spec import Dialect, dialect
from mypt_spec.tokenizer.vocabulary import FILE as VOCABULARY

if TYPE_CHECKING:
    from mypt_infer.chat.session import Session
    from mypt_infer.controller import Source
    from mypt_infer.toolbox import Toolbox
    from mypt_infer.workspace import WorkspaceEngine

DONE, FAILED = 0, 2
DIALECT = "mypt"
SYSTEM = "You are MyPT. Answer questions using workspace tools when needed."

PROG = "mypt-chat"
EPILOG = """\
examples:
  mypt-chat --scripted --workspace docs/           a demonstration: no model, but everything else
  mypt-chat --scripted --workspace docs/ --transcript chats.jsonl < questions.txt
  mypt-chat --model runs/7m --workspace docs/      a model, decoded within its format
  mypt-chat --model_ckpt runs/toolchat --workspace_dir docs/ --index_dir docs/index/latest

Answers are shown; --verbose or /show shows what was thought, called and found, too. /help in the
chat shows its commands. A transcript is a record: mypt-lint checks it, mypt-prepare trains on it.
Turns that cannot be trained on are left out of its messages, and named.
Exit status: 0 done, 2 failure.
"""


def _options(out: Parser) -> None:
    add = out.group("input")
    source = add.one_of(required=True)
    source(
        "--model --model_ckpt DIR",
        "config.json and *.safetensors of a Llama, or a run of mypt-train; needs the extra infer",
    )
    source(
        "--scripted",
        "a stand-in for a model, which searches for what you say and quotes what it finds",
    )
    add.dialect(f"that of the checkpoint, or {DIALECT}")
    add(
        "--workspace --workspace_dir DIR",
        "a folder of documents for the tools; without it there are none",
    )
    add("--index-dir --index_dir DIR", "where its index is kept (default: as mypt-index says)")
    add("--system TEXT", "the system prompt; the tools are added to it")
    add = out.group("limits")
    add("--max-steps N", "calls and answers of a turn", type=int, default=5)
    add("--max-tokens N", "tokens of a turn that the model draws", type=int, default=512)
    add("--max-think-tokens N", "tokens of a thought", type=int, default=256)
    add("--no-think", "the model answers or calls at once, without a thought")
    add("--max-toolcall-tokens N", "tokens of a call", type=int, default=128)
    add(
        "--context-length N",
        "ids that the model sees; the oldest turns are left out (default: what its config.json "
        "says)",
        type=int,
    )
    add = out.group("sampling")
    add(
        "--temperature T",
        "0 takes the best (default: %(default)s); calls always do",
        type=float,
        default=0.7,
    )
    add("--top-p P", "choose among the best that hold a share P", type=float)
    add("--seed SEED", "the same answers again", type=int)
    add = out.group("output")
    add("--transcript FILE", "add each conversation to this file of JSONL when it ends")
    add(
        "-v --verbose",
        "show what is thought, called and found as it comes, not only the answer",
    )


def _run(chosen: argparse.Namespace) -> int:
    session = _open(chosen)
    try:
        _talk(session)
    finally:
        kept = session.keep()
    return DONE if kept else FAILED


def _open(chosen: argparse.Namespace) -> Session:
    """Returns the session that the options ask for.

    Raises OSError, ValueError or WorkspaceError saying what is wrong.
    """
    from mypt_infer.chat.screen import Screen
    from mypt_infer.chat.session import Session
    from mypt_infer.controller import Controller, Options

    transcript = Path(chosen.transcript) if chosen.transcript else None
    if transcript is not None and not transcript.absolute().parent.is_dir():
        raise ValueError(f"--transcript {transcript}: its folder does not exist")
    played = _Played(chosen) if chosen.model is not None else None
    name = DIALECT if chosen.dialect in (None, "auto") else chosen.dialect
    spoken = _named(name) if played is None else played.dialect
    engine = _engine(chosen, spoken)
    tools = _tools(engine, played)
    limits = {
        "max_think_tokens": chosen.max_think_tokens,
        "max_toolcall_tokens": chosen.max_toolcall_tokens,
    }
    options = Options(
        max_steps=chosen.max_steps,
        max_tokens=chosen.max_tokens,
        context_length=chosen.context_length or (played.context_length if played else None),
        think=False if chosen.no_think else None,
        **limits,
    )
    source = _demo(spoken, tools) if played is None else played.source(tools, limits)
    controller = Controller(
        source,
        tools,
        dialect=spoken,
        system=_system(chosen.system, spoken, tools),
        options=options,
        seed=chosen.seed,
    )
    screen = Screen(sys.stdout, verbose=chosen.verbose)
    return Session(controller, screen, engine, transcript=transcript)


def _named(name: str, vocabulary: Path | None = None) -> Dialect:
    """Returns the dialect of that name. Raises ValueError naming the known ones."""
    try:
        return dialect(name, vocabulary=vocabulary)
    except KeyError as error:
        raise ValueError(error.args[0]) from None


def _engine(chosen: argparse.Namespace, spoken: Dialect) -> WorkspaceEngine | None:
    """Returns the workspace with its index brought up to date, or None if no folder is named."""
    from mypt_infer.workspace import EmbedderError, IndexBusyError, WorkspaceEngine

    if chosen.workspace is None:
        return None
    if format_of(spoken).result is None:
        raise ValueError(f"{spoken.name} has no tool calls; leave --workspace out")
    with Bar(0) as bar:
        engine = WorkspaceEngine(Path(chosen.workspace), chosen.index_dir, progress=bar.show)
        try:
            engine.refresh(progress=bar.show)
        except (IndexBusyError, EmbedderError) as error:
            print(f"{PROG}: {error}; using the index as it is", file=sys.stderr)
    return engine


def _tools(engine: WorkspaceEngine | None, played: _Played | None) -> Toolbox:
    """Returns the tools of a workspace; if there is a model, it summarizes."""
    from mypt_infer.toolbox import Toolbox
    from mypt_infer.workspace import WorkspaceTools, toolbox

    if engine is None:
        return Toolbox()
    own = {} if played is None else {"summarizer": played.summarizer()}
    return toolbox(WorkspaceTools(engine, **own))


def _system(given: str | None, spoken: Dialect, tools: Toolbox) -> str | None:
    """Returns the system prompt, or None if the dialect has no place for one."""
    schema = spoken.adapter.SCHEMA
    if "system" not in schema.top and "system" not in schema.roles:
        if given:
            raise ValueError(f"{spoken.name} has no system prompt; leave --system out")
        return None
    return (given or SYSTEM) + (f"\n\n{tools.usage}" if len(tools) else "")


class _Played:
    """A model folder, and what the chat needs of it."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        try:
            import torch  # noqa: F401
        except ImportError:
            raise ValueError(
                "running a model needs torch: pip install 'mypt-tags[infer]'"
            ) from None
        from mypt_infer.generate.llama import load
        from mypt_infer.generate.sample import Sampling
        from mypt_model.folder import beside, dialect_of

        name = dialect_of(chosen.model, wanted=chosen.dialect, default=DIALECT)
        self.dialect = _named(name, beside(chosen.model, VOCABULARY))
        self.model, self.seed = load(chosen.model), chosen.seed
        self.sampling = Sampling(temperature=chosen.temperature, top_p=chosen.top_p)
        self.context_length: int | None = self.model.config.max_position_embeddings

    def source(self, tools: Toolbox, limits: dict[str, int]) -> Source:
        from mypt_infer.controller.model_source import ModelSource
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


def _demo(spoken: Dialect, tools: Toolbox) -> Source:
    from mypt_infer.chat.demo import Demo

    return Demo(spoken, calls=len(tools) > 0)


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


main = Command(
    PROG,
    "Chat over a folder of documents: the model searches, reads and cites them.",
    EPILOG,
    _options,
    _run,
    quiet="",
    errors=(ValueError,),
)

if __name__ == "__main__":
    sys.exit(main())
