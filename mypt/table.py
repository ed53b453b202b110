"""Lists the commands: the module of each, and what it does. Imports none of them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypt_cli.command import Command

# By groups, each command: its module and what it does.
GROUPS = {
    "check and look at data": {
        "lint": ("mypt.lint.cli", "check training data against the grammar of its format"),
        "diff": ("mypt.diff", "compare what two templates, models or servers make of records"),
        "view": ("mypt.view", "show episodes as a chat, with mask, token ids and findings"),
    },
    "make data": {
        "convert": ("mypt.convert", "convert records, and say what is lost"),
        "synth": ("mypt.synth", "make up episodes of a curriculum, phase by phase"),
        "vocab": ("mypt.vocab", "learn a small vocabulary"),
        "prepare": ("mypt.prepare.cli", "make training shards with exact loss masks"),
    },
    "make a model": {
        "train": ("mypt.train", "train a model on prepared data"),
        "export": ("mypt.export", "write a checkpoint as a Hugging Face folder"),
    },
    "run a model": {
        "generate": ("mypt.generate", "generate one turn: legal, complete, within budget"),
        "serve": ("mypt.serve", "serve a model to clients of OpenAI's API"),
        "chat": ("mypt.chat", "chat over a folder of documents"),
        "index": ("mypt.index", "index and search a folder of documents"),
    },
}
BUILTINS = {
    "completion": "print a script that completes all commands: bash, zsh or fish",
    "help": "show the help of a command",
}
MODULES = {name: module for group in GROUPS.values() for name, (module, _) in group.items()}
ABOUT = {name: about for group in GROUPS.values() for name, (_, about) in group.items()} | BUILTINS
PROG = "mypt"


def command(name: str) -> Command:
    result: Command = import_module(MODULES[name]).main
    return result
