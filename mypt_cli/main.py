"""Runs the command `mypt`: `mypt lint` is `mypt-lint`, and so on. Its help imports no engine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from mypt_cli.errors import suggestion
from mypt_cli.parser import coloured

if TYPE_CHECKING:
    from mypt_cli.command import Command

DONE, FAILED = 0, 2
# By groups, each command: its module and what it does.
GROUPS = {
    "check and look at data": {
        "lint": ("mypt_lint.cli", "check training data against the grammar of its format"),
        "view": (
            "mypt_view.cli",
            "show episodes as a chat, with mask, token ids and findings",
        ),
    },
    "make data": {
        "convert": ("mypt_convert.cli", "convert records, and say what is lost"),
        "synth": ("mypt_train.commands.synth", "make up episodes of a curriculum, phase by phase"),
        "vocab": ("mypt_train.commands.vocab", "learn a small vocabulary"),
        "prepare": ("mypt_train.commands.prepare", "make training shards with exact loss masks"),
    },
    "make a model": {
        "train": ("mypt_train.commands.train", "train a model on prepared data"),
        "export": ("mypt_train.commands.export", "write a checkpoint as a Hugging Face folder"),
    },
    "run a model": {
        "generate": (
            "mypt_infer.generate.cli",
            "generate one turn: legal, complete, within budget",
        ),
        "serve": ("mypt_infer.serve.cli", "serve a model to clients of OpenAI's API"),
        "chat": ("mypt_infer.chat.cli", "chat over a folder of documents"),
        "index": ("mypt_infer.workspace.cli", "index and search a folder of documents"),
    },
}
OWN = {
    "completion": "print a script that completes all commands: bash, zsh or fish",
    "help": "show the help of a command",
}
MODULES = {name: module for group in GROUPS.values() for name, (module, _) in group.items()}
ABOUT = {name: about for group in GROUPS.values() for name, (_, about) in group.items()} | OWN
PROG = "mypt"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command that the first word names; returns the exit status."""
    name, *rest = [*(sys.argv[1:] if argv is None else argv)] or ["help"]
    if name in MODULES:
        return command(name)(rest)
    if name in ("help", "-h", "--help"):
        return command(rest[0])(["--help"]) if rest and rest[0] in MODULES else _help(rest)
    if name == "--version":
        from mypt_spec import __version__

        print(f"mypt {__version__}")
        return DONE
    if name in ("completion", "complete"):
        from mypt_cli import completion

        named = completion.command(f"{PROG} completion")
        return completion.complete(rest) if name == "complete" else named(rest)
    return _unknown(name)


def command(name: str) -> Command:
    """Returns a command."""
    found: Command = import_module(MODULES[name]).main
    return found


def _help(rest: list[str]) -> int:
    if rest and rest[0] not in OWN:
        return _unknown(rest[0])
    width = max(map(len, ABOUT)) + 2
    sections = {title: dict.fromkeys(group) for title, group in GROUPS.items()}
    lines = ["usage: mypt COMMAND [ARGUMENT ...]", ""]
    lines += ["The format of chat-model training data as a grammar, and what follows from it.", ""]
    for title, names in {**sections, "more": dict.fromkeys(OWN)}.items():
        lines += [f"{title}:", *(f"  {name:<{width}}{ABOUT[name]}" for name in names), ""]
    lines += [
        "`mypt lint` is `mypt-lint`, and so on. `mypt COMMAND --help` shows options and examples."
    ]
    print(coloured("\n".join(lines), sys.stdout))
    return DONE


def _unknown(name: str) -> int:
    known = list(ABOUT)
    print(f"mypt: error: no command {name!r}{suggestion(name, known)}", file=sys.stderr)
    print(f"Commands: {', '.join(known)}.", file=sys.stderr)
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
