"""Reads the command line of `mypt-lint`, and hands it to a session or to a subcommand.

Findings go to stdout, progress and the summary to stderr. Only what `--help` and completion need is
imported before a run.
"""

import argparse
import gc
import sys

from mypt.lint.commands import ABOUT, QUIET, subcommand
from mypt.options import options
from mypt_cli.command import Command

FINDINGS = 1  # the exit status
PROG = "mypt-lint"


def _lint(chosen: argparse.Namespace) -> int:
    is_first = "mypt.lint.session" not in sys.modules
    if is_first:
        gc.disable()  # modules are no garbage, and looking for it takes a tenth of the start
    from mypt.lint.session import lint, watched

    if is_first:
        gc.freeze()  # nor are they at the end
        gc.enable()
    if chosen.explain:
        return subcommand("explain")([chosen.explain])
    if chosen.watch:
        watched(chosen)
    return lint(chosen)


main = Command(
    PROG,
    __file__,
    options(__file__),
    _lint,
    quiet=QUIET,
    subcommands=ABOUT,
    subcommand=subcommand,
    closed_status=FINDINGS,
)

if __name__ == "__main__":
    sys.exit(main())
