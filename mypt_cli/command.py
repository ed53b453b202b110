"""Defines a command by its name, its options and its body; its parser and its main follow."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

from mypt_cli.parser import Parser
from mypt_cli.run import run


def _nothing(_: Sequence[str]) -> None:
    return None


@dataclass(frozen=True)
class Command:
    """A command. Called with words (without them, those of the command line), it runs.

    `options` adds its options to a parser, and `body` does what they say and returns the exit
    status. `quiet` says what -q leaves out; "" is a command without -q. `before` may do something
    else instead, for some words: it returns an exit status then. The others are as for `run`.
    """

    name: str
    about: str
    epilog: str
    options: Callable[[Parser], None]
    body: Callable[[Namespace], int]
    _: KW_ONLY
    quiet: str = "no progress, no summary"
    before: Callable[[Sequence[str]], int | None] = _nothing
    errors: tuple[type[Exception], ...] = ()
    interrupted: str = "interrupted"
    gone: int = 0

    def __call__(self, words: Sequence[str] | None = None) -> int:
        """Runs the command; returns its exit status."""
        given = list(sys.argv[1:] if words is None else words)

        def body() -> int:
            status = self.before(given)
            return self.body(self.parser().parse_args(given)) if status is None else status

        return run(
            self.name, body, errors=self.errors, interrupted=self.interrupted, gone=self.gone
        )

    def parser(self) -> Parser:
        """Returns the parser of the command line."""
        out = Parser(self.name, self.about, self.epilog)
        self.options(out)
        out.add_common(self.quiet)
        return out
