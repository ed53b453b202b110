"""Prints the scripts that complete all commands in bash, zsh and fish.

A script calls `mypt complete SHELL WORD ...` whenever Tab is pressed, so it is never older than the
commands. The answer is a line `files` or `words`, which says whether file names fit as well, then a
line for each candidate, with its help as the shell expects it.
"""

import sys
from argparse import Namespace
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from mypt_cli.command import Command
from mypt_cli.parser import Parser

SHELLS = ("bash", "zsh", "fish")


def command(name: str, completed: Iterable[str]) -> Command:
    """Returns the command that prints a script for the commands `completed`.

    `name` is what it is called by.
    """
    body = partial(_print_script, completed=completed)
    return Command(name, "Print a script that completes mypt and its commands.", __file__,
                   _options, body, quiet="")  # fmt: skip


def _options(out: Parser) -> None:
    out.group("input")("SHELL", "bash, zsh or fish", dest="shell", choices=SHELLS)


def _print_script(options: Namespace, *, completed: Iterable[str]) -> int:
    names = " ".join(["mypt", *(f"mypt-{name}" for name in completed)])
    script = Path(__file__).parent / "assets" / f"completion.{options.shell}"
    sys.stdout.write(script.read_text(encoding="utf-8").replace("NAMES", names))
    return 0
