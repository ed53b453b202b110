"""Lists the commands: the module of each, and what it does. Imports none of them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from mypt_spec.compiled.toml import load

if TYPE_CHECKING:
    from mypt_cli.command import Command

GROUPS: dict[str, dict[str, dict[str, str]]] = load(Path(__file__).with_name("commands.toml"))
BUILTINS = {
    "completion": "print a script that completes all commands: bash, zsh or fish",
    "help": "show the help of a command",
}
_ROWS = {name: row for group in GROUPS.values() for name, row in group.items()}
MODULES = {name: row["module"] for name, row in _ROWS.items()}
ABOUT = {name: row["about"] for name, row in _ROWS.items()} | BUILTINS
PROG = "mypt"


def command(name: str) -> Command:
    result: Command = import_module(MODULES[name]).main
    return result
