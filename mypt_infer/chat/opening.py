"""Opens what a chat needs: the workspace, a model or its stand-in, and conversations of both."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mypt_cli.run import saying
from mypt_infer.controller import Controller, Options, Script, Source
from mypt_infer.run_format import format_of
from mypt_infer.toolbox import Toolbox
from mypt_spec import Dialect, dialect

if TYPE_CHECKING:
    from mypt_infer.workspace import WorkspaceEngine

DIALECT = "mypt"
SYSTEM = "You are MyPT. Answer questions using workspace tools when needed."
# The seconds between two looks whether another process has made the index.
_POLL = 0.2


class Setup(NamedTuple):
    """What all conversations of a chat have in common; `system` is the user's system prompt."""

    source: Source
    tools: Toolbox
    dialect: Dialect
    options: Options
    system: str | None = None
    seed: int | None = None

    def new(self) -> Controller:
        """Returns a new conversation."""
        return Controller(self.source, self.tools, **self._common)

    def past(self, record: dict[str, Any], turns: int | None = None) -> Controller:
        """Returns a past conversation, or its first `turns` turns. Raises TranscriptError."""
        return Controller.from_record(record, self.source, self.tools, turns=turns, **self._common)

    def prompted(self, system: str) -> Setup:
        """Returns the same with another system prompt. Raises ValueError if there is none."""
        setup = self._replace(system=system)
        setup.new()
        return setup

    @property
    def _common(self) -> dict[str, Any]:
        names = ("dialect", "options", "seed")
        return {"system": self.prompt} | {name: getattr(self, name) for name in names}

    @property
    def prompt(self) -> str | None:
        """Returns the whole system prompt, or None if the dialect has no place for one."""
        schema = self.dialect.adapter.SCHEMA
        if "system" not in schema.top and "system" not in schema.roles:
            if self.system:
                raise ValueError(f"{self.dialect.name} has no system prompt; leave --system out")
            return None
        return (self.system or SYSTEM) + (f"\n\n{self.tools.usage}" if len(self.tools) else "")


def from_arguments(args: argparse.Namespace) -> tuple[Setup, WorkspaceEngine | None]:
    """Returns what the options ask for. Raises OSError, ValueError or WorkspaceError."""
    if args.scripted and (args.model is not None or args.vocab is not None):
        raise ValueError("--scripted needs no --model and no --vocab")
    if not args.scripted and args.model is None:
        raise ValueError("name a model: --model DIR; --scripted needs none")
    from mypt_infer.chat.demo import Demo

    played = None if args.scripted else _Played(args)
    name = DIALECT if args.dialect in (None, "auto") else args.dialect
    try:
        spoken = dialect(name) if played is None else played.dialect
    except KeyError as error:
        raise ValueError(error.args[0]) from None
    limits = {f.name: getattr(args, f.name) for f in fields(Options) if f.name in args}
    options = Options(**limits, think=False if args.no_think else None)
    if args.workspace is not None and format_of(spoken).result is None:
        raise ValueError(
            f"{spoken.name} has no tool calls that can be answered here; leave --workspace out"
        )
    setup = Setup(Script([]), Toolbox(), spoken, options, args.system, args.seed)
    setup.new()  # what is wrong with it is said before an index is made
    engine = None if args.workspace is None else _engine(args)
    tools = _tools(engine, played)
    source = Demo(spoken, calls=len(tools) > 0) if played is None else played.source(tools, options)
    return setup._replace(source=source, tools=tools), engine


def _engine(args: argparse.Namespace) -> WorkspaceEngine:
    """Returns the workspace with its index brought up to date.

    Where that cannot be done now, the index that is there is used as it is, and that is said.
    Another process that makes the first index is waited for.
    """
    from mypt_cli.progress import Bar
    from mypt_infer.workspace import EmbedderError, IndexBusyError, WorkspaceEngine

    waiting = False
    while True:
        try:
            with Bar(0) as bar:
                engine = WorkspaceEngine(Path(args.workspace), args.index_dir, progress=bar.show)
                try:
                    engine.refresh(progress=bar.show)
                except (IndexBusyError, EmbedderError) as error:
                    print(f"mypt-chat: {error}; the index is used as it is", file=sys.stderr)
                return engine
        except IndexBusyError:
            if not waiting:
                print("mypt-chat: another process makes the index; waiting for it", file=sys.stderr)
            waiting = True
            time.sleep(_POLL)


def _tools(engine: WorkspaceEngine | None, played: _Played | None) -> Toolbox:
    """Returns the tools of a workspace; if there is a model here, it summarizes."""
    from mypt_infer.workspace import WorkspaceTools, toolbox

    if engine is None:
        return Toolbox()
    if played is None:
        return toolbox(WorkspaceTools(engine))
    from mypt_infer.workspace.model_summary import summarizer

    summarize = summarizer(played.model, played.dialect, device=played.device)
    return toolbox(WorkspaceTools(engine, summarizer=summarize))


class _Played:
    """A model folder, and what the chat needs of it."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        try:
            import torch
        except ImportError:
            raise ValueError(
                "running a model needs torch: pip install 'mypt-tags[infer]'"
            ) from None
        from mypt_infer.generate.loop import positions
        from mypt_infer.generate.opened import loaded, spoken
        from mypt_infer.generate.sample import Sampling

        _, self.dialect = spoken(
            chosen.model, choice=chosen.dialect, vocabulary=chosen.vocab,
            say=saying("mypt-chat", quiet=False),
        )  # fmt: skip
        self.model, self.seed = loaded(chosen.model, chosen.device), chosen.seed
        self.device = torch.device(chosen.device)
        most = positions(self.model)
        if most is not None and (chosen.context_length or 0) > most:
            raise ValueError(
                f"--context-length {chosen.context_length}: the model has {most} positions"
            )
        self.sampling = Sampling(
            temperature=chosen.temperature, top_k=chosen.top_k, top_p=chosen.top_p
        )

    def source(self, tools: Toolbox, options: Options) -> Source:
        from mypt_infer.controller.model_source import ModelSource
        from mypt_infer.decode.decoder import Decoder

        decoder = Decoder(
            self.dialect,
            tools.schemas,
            engine="auto",
            max_think_tokens=options.max_think_tokens,
            max_toolcall_tokens=options.max_toolcall_tokens if len(tools) else None,
        )
        return ModelSource(
            self.model, decoder, sampling=self.sampling, seed=self.seed, device=self.device
        )
