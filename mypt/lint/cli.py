"""Reads the command line of `mypt-lint`, and hands it to a session or to a subcommand.

Findings go to stdout, progress and the summary to stderr. Only what `--help` and completion need is
imported before a run.
"""

import argparse
import sys

from mypt.lint.commands import ABOUT, subcommand
from mypt.lint.options import QUIET, options
from mypt_cli.command import Command

FINDINGS = 1  # the exit status
PROG = "mypt-lint"
EPILOG = """\
examples:
  mypt-lint data.jsonl                        one file; exit status 0 clean, 1 findings, 2 failure,
                                              3 only a --max-rate is exceeded
  mypt-lint data/ 'more/**/*.jsonl.gz'        folders and patterns, .gz and .zst too
  mypt-lint --phase 3 --fail-on warning phase3.jsonl
  mypt-lint --format github data.jsonl        annotations in a GitHub workflow
  mypt-lint sharegpt.jsonl                    records of other tools; says which
  mypt-lint --dialect usf-omega chats.jsonl   the same, checked as a format as well
  mypt-lint --kind text episode.txt           serialised text instead of JSONL
  generate | mypt-lint --kind generation -    is it a legal (beginning of a) turn?
  mypt-lint --template my_model/              the chat template of a model
  mypt-lint sft                               a folder that mypt-prepare has made
  mypt-lint --fix data/                       repair what is safe to repair; --diff shows it first
  zcat x.gz | mypt-lint --fix -o fixed.jsonl -
  mypt-lint explain MYP202                    also: rules, init, completion, server
"""


def _lint(chosen: argparse.Namespace) -> int:
    from mypt.lint.session import lint, watched

    if chosen.explain:
        return subcommand("explain")([chosen.explain])
    if chosen.watch:
        watched(chosen)
    return lint(chosen)


main = Command(
    PROG,
    "Check chat training data against the grammar of its format.",
    EPILOG,
    options,
    _lint,
    quiet=QUIET,
    subcommands=ABOUT,
    subcommand=subcommand,
    closed_status=FINDINGS,
)

if __name__ == "__main__":
    sys.exit(main())
