"""Parsers of command lines: coloured help on a terminal, one-line errors, old names of options."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, TextIO

_COLOURS = (  # what is coloured, and the code of the colour
    (re.compile(r"^\S[^\n]*:$|^usage:", re.MULTILINE), "1;33"),
    (re.compile(r"(?<![\w/-])--?[A-Za-z][\w-]*"), "36"),
    (re.compile(r"^  [a-z]+(?=  )", re.MULTILINE), "32"),
)


def coloured(text: str, stream: TextIO) -> str:
    """Returns the help of a command as a stream should have it: with colours on a terminal."""
    if not stream.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb":
        return text
    for pattern, code in _COLOURS:
        text = pattern.sub(f"\x1b[{code}m\\g<0>\x1b[0m", text)
    return text


def nearest(word: str, known: Sequence[str], *, cutoff: float = 0.6) -> str:
    """Returns the known word that was probably meant; "" where none is near."""
    import difflib

    return next(iter(difflib.get_close_matches(word, known, 1, cutoff)), "")


def suggestion(word: str, known: Sequence[str]) -> str:
    """Returns the end of a message that names what was probably meant; "" where nothing is near."""
    near = nearest(word, known)
    return f"; did you mean {near}?" if near else ""


class _Parser(argparse.ArgumentParser):
    color = False  # argparse's own, of Python 3.14 on

    def print_help(self, file: Any = None) -> None:
        stream = file or sys.stdout
        stream.write(coloured(self.format_help(), stream))

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        chosen, unknown = self.parse_known_args(args, namespace)
        if unknown:
            near = suggestion(unknown[0].partition("=")[0], shown(self))
            self.error(f"unrecognized arguments: {' '.join(unknown)}{near}")
        return chosen

    def error(self, message: str) -> Any:
        self.exit(2, f"{self.prog}: error: {message}\nTry {self.prog} --help.\n")


def parser(prog: str, description: str, epilog: str = "") -> argparse.ArgumentParser:
    """Returns a parser without arguments for a command."""
    return _Parser(
        prog=prog,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def hide(action: argparse.Action, *old: str) -> None:
    """Hides old names of an option: they are still read."""
    action.option_strings = [name for name in action.option_strings if name not in old]


def shown(of: argparse.ArgumentParser) -> list[str]:
    """Returns the names of all options that the help shows."""
    return [name for action in visible(of) for name in action.option_strings]


def visible(of: argparse.ArgumentParser) -> list[argparse.Action]:
    """Returns the options that the help shows."""
    return [a for a in of._actions if a.option_strings and a.help != argparse.SUPPRESS]
