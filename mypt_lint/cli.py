"""Reads the command line of `mypt-lint`, and hands it to a session or to a subcommand.

Findings go to stdout, progress and the summary to stderr. Only what `--help` and completion need is
imported before a run.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mypt_cli.command import Command
from mypt_cli.errors import UsageError, nearest
from mypt_cli.parser import Parser, positive
from mypt_lint.commands import COMMANDS, subcommand
from mypt_lint.options import (
    DEFAULTS,
    KINDS,
    LAUNCHERS,
    add_dialect,
    add_ignore,
    add_records,
    add_settings,
    add_system,
)
from mypt_lint.report import FORMATS

if TYPE_CHECKING:
    from mypt_lint.run.chunk import Chunk
    from mypt_lint.run.plan import Group

CLEAN, FOUND, FAILED, INTERRUPTED = 0, 1, 2, 130

PROG = "mypt-lint"
EPILOG = """\
examples:
  mypt-lint data.jsonl                        one file; exit status 0 clean, 1 findings, 2 failure
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


def options(out: Parser) -> None:
    """Adds the options of linting."""
    add = out.group("input")
    add("PATH", "files, folders, patterns, or - for standard input", dest="paths", nargs="*")
    add_dialect(add, "found out, mypt in doubt")
    add_records(add)
    add_system(add)
    add(
        "--kind",
        "JSONL records, serialised text, what a model wrote, or tokens for a trainer (default: "
        f"{DEFAULTS['kind']})",
        choices=KINDS,
    )
    add(
        "--trainer-rows",
        "the files hold rows of tokens for a trainer (input_ids, labels), as --kind rows",
        dest="kind",
        action="store_const",
        const="rows",
    )
    add(
        "--mask NAME",
        "with --trainer-rows: what the labels train, as mypt-prepare --mask (default: model)",
        type=_mask,
    )
    add(
        "--exclude PATTERN",
        "in folders and patterns, leave out what matches, written as in .gitignore",
        action="append",
        default=[],
    )
    add("--no-respect-gitignore", "read what .gitignore files leave out, too")
    add(
        "--template PATH",
        "lint a chat template: a file of Jinja, or a model folder; with --dialect it must write it",
        action="append",
        default=[],
    )
    add = out.group("what is checked")
    add("--phase N", "allow only what the curriculum has introduced by phase N", type=int)
    add("--max-tokens N", "report episodes of more than N tokens", type=positive)
    add(
        "--vocab PATH",
        "count and read tokens by another vocabulary than that of the format, as mypt-prepare "
        "--vocab",
    )
    add(
        "--tool NAME",
        "declare a tool, beside those in the system prompt",
        action="append",
        default=[],
    )
    add(
        "--data-set",
        "compare the episodes of all files too: duplicates, overlap, sources, languages (MYP6)",
    )
    add(
        "--eval GLOB",
        "with --data-set: files for evaluation; without it, their names say so (eval, val, test)",
        action="append",
    )
    add("--eval-prompts FILE", "with --data-set: prompts, one a line, that must not be trained on")
    add(
        "--select CODES",
        "report only these: codes, beginnings of codes (MYP2), or names; comma-separated",
        action="append",
    )
    add_ignore(add)
    add = out.group("known findings")
    add("--write-baseline FILE", "write what is found now to FILE as known, and exit with 0")
    add(
        "--baseline FILE", "report only what FILE does not know; an edited episode is known no more"
    )
    add("--prune-baseline", "with --baseline: take out of FILE what is found no more")
    add = out.group("fixing")
    add("--fix", "repair what has a safe fix, in place, then report what is left")
    add(
        "--unsafe-fixes",
        "with --fix, --fix-only or --diff: make the fixes too that may change content",
    )
    add("--fix-only", "as --fix, but report nothing else and exit with 0")
    add(
        "--diff",
        "show as a diff what --fix would change, and write nothing; exit status 1 if anything",
    )
    add = out.group("output")
    add(
        "--format NAME[=FILE]",
        f"how findings are printed: {', '.join(FORMATS)} (default: {DEFAULTS['format']}); more "
        "than one with a file each",
        action="append",
    )
    add(
        "-o --out FILE",
        "write the findings to FILE; with --fix the fixed data, - for standard output",
        dest="output",
        old=["--output"],
    )
    add(
        "--show-all",
        "print all findings of a kind in text and grouped, not the first three of a file",
    )
    add("--statistics", "print counts by rule instead of the findings")
    add(
        "--fail-on",
        f"lowest severity that makes the exit status 1 (default: {DEFAULTS['fail-on']})",
        choices=("error", "warning", "info"),
    )
    add("--exit-zero", "exit with 0 whatever is found; failures still are 2")
    add = add_settings(out)
    add(
        "--show-settings",
        "print the settings, for each file if some are named, and where they come from",
    )
    add = out.group("performance")
    add("-j --jobs N", "processes; 0 chooses by size and cores (default)", type=int, default=0)
    add(
        "--launcher NAME",
        "check units of the files, also of stores, by processes here (local) or on a Ray cluster "
        "(ray), with the same findings; -j 0 takes all processors",
        choices=LAUNCHERS,
    )
    add = out.group("other")
    add("--explain CODE", "explain a rule (code or name, or `all`) and exit")
    add("--watch", "run again whenever a file changes")


def _mask(name: str) -> str:
    """Returns the name of a mask. Raises ArgumentTypeError."""
    from mypt_spec.encoder import Mask

    try:
        return str(Mask.of(name))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _lint(chosen: argparse.Namespace) -> int:
    from mypt_lint.session import lint, watched

    if chosen.explain:
        return subcommand("explain")([chosen.explain])
    if chosen.watch:
        watched(chosen, folders=_prepared, launched=_launched)
    return lint(chosen, folders=_prepared, launched=_launched)


def _subcommand(words: Sequence[str]) -> int | None:
    """Runs what the first word names; returns its exit status, or None where it names nothing."""
    first = words[0] if words else ""
    if first in COMMANDS:
        return subcommand(first)(words[1:])
    near = not (first.startswith("-") or len(first) > 20 or os.path.lexists(first))
    if near and (meant := nearest(first, COMMANDS, cutoff=0.75)):
        raise UsageError(f"{first}: no such file or folder; did you mean mypt-lint {meant}?")
    return None


def _prepared(folders: list[str], codes: frozenset[str]) -> Iterator[Chunk]:
    """Yields the findings about prepared data sets."""
    if folders:
        from mypt_train.data.verify import check_folder

        for folder in folders:
            yield from check_folder(folder, codes)


def _launched(groups: list[Group], launcher: str, jobs: int) -> Iterator[Chunk]:
    """Yields the findings of groups, checked by a launcher."""
    from mypt_train.scale.lint.launch import launched

    return launched(groups, launcher=launcher, jobs=jobs)


main = Command(
    PROG,
    "Check chat training data against the grammar of its format.",
    EPILOG,
    options,
    _lint,
    quiet="print findings and nothing else",
    before=_subcommand,
    gone=FOUND,
)

if __name__ == "__main__":
    sys.exit(main())
