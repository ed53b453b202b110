"""Defines a command by its name, its options and its body; its parser and its main follow."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from mypt_cli.errors import UsageError, nearest
from mypt_cli.parser import Parser
from mypt_cli.run import message_of
from mypt_cli.terminal import Display

FAILED, INTERRUPTED = 2, 130
_OURS = "mypt_"  # modules whose exceptions carry a message for people


class Command(NamedTuple):
    """A command. Called with words (without them, those of the command line), it runs.

    `options` adds its options to a parser, and what it is about unless `about` says so; `body` does
    what they say and returns the exit status, None for 0. The help ends with the text beside
    `file`, that of its module; "" has none. `quiet` says what -q leaves out; "" is a command
    without -q. If the first word is one of `subcommands`, which maps names to help, the command
    that `subcommand` returns runs instead.

    The exit status is 2 for an error, which is one line on stderr, and 130 after Ctrl-C, where
    `interrupted` is what to say. `errors` are exceptions of other packages that carry a message for
    people; `closed_status` is the status when the reader of the output has gone (`| head`), unless
    the only argument of the BrokenPipeError is another one.
    """

    name: str
    file: str
    options: Callable[[Parser], None]
    body: Callable[[Namespace], int | None]
    about: str = ""
    quiet: str = "no progress, no summary"
    subcommands: Mapping[str, str] = MappingProxyType({})
    subcommand: Callable[[str], Command] | None = None
    errors: tuple[type[Exception], ...] = ()
    interrupted: str = "interrupted"
    closed_status: int = 0

    def __call__(self, words: Sequence[str] | None = None) -> int:
        try:
            status = self._run(list(sys.argv[1:] if words is None else words))
            if not sys.stdout.closed:  # as a language server leaves it
                sys.stdout.flush()
        except KeyboardInterrupt:
            start = "\n" if sys.stderr.isatty() else ""  # after the ^C that the terminal has echoed
            print(f"{start}{self.name}: {self.interrupted}", file=sys.stderr)
            return INTERRUPTED
        except BrokenPipeError as error:
            # What is still in the buffer has nowhere to go.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return int(error.args[0]) if len(error.args) == 1 else self.closed_status
        except Exception as error:
            if isinstance(error, ModuleNotFoundError) and error.name == "numpy":
                error = UsageError("this needs numpy: pip install 'mypt-tags[numpy]'")
            expected = isinstance(error, (*self.errors, OSError))
            if not (expected or type(error).__module__.startswith(_OURS)):
                import traceback

                traceback.print_exc()
                print(f"{self.name}: error: this is a fault of {self.name}, not of what it was "
                      "given; please report it with the lines above", file=sys.stderr)  # fmt: skip
                return FAILED
            reason = Display(sys.stderr).line(message_of(error), keep="\n")
            print(f"{self.name}: error: {reason}", file=sys.stderr)
            return FAILED
        return status

    def _run(self, arguments: list[str]) -> int:
        first = arguments[0] if arguments else ""
        if self.subcommand is not None:
            if first in self.subcommands:
                return self.subcommand(first)(arguments[1:])
            self._refuse_misspelt(first)
        return self.body(self.parser().parse_args(arguments)) or 0

    def _refuse_misspelt(self, first: str) -> None:
        """Raises UsageError if the first word is no file, but nearly the name of a subcommand."""
        near = not (first.startswith("-") or len(first) > 20 or os.path.lexists(first))
        if near and (hit := nearest(first, list(self.subcommands), cutoff=0.75)):
            raise UsageError(f"{first}: no such file or folder; did you mean {self.name} {hit}?")

    def parser(self) -> Parser:
        epilog = ""
        if self.file:
            epilog = Path(self.file).with_suffix(".txt").read_text(encoding="utf-8")
        out = Parser(self.name, self.about, epilog)
        self.options(out)
        out.add_common(self.quiet)
        return out
