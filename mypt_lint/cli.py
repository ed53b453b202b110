"""The command `mypt-lint`.

Findings go to stdout, progress and the summary to stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from mypt_cli.errors import UsageError
from mypt_cli.parser import hide, nearest
from mypt_cli.parser import parser as command_line
from mypt_cli.run import run
from mypt_spec import __version__

if TYPE_CHECKING:
    from mypt_lint.run.runner import Chunk

CLEAN, FOUND, FAILED, INTERRUPTED = 0, 1, 2, 130
_FORMATS = (
    "text",
    "concise",
    "grouped",
    "json",
    "jsonl",
    "sarif",
    "github",
    "gitlab",
    "junit",
    "summary",
)
COMMANDS = (
    "explain",
    "rules",
    "init",
    "completion",
    "server",
)  # as in commands.py, which is loaded for them only
DEFAULTS = {"dialect": "mypt", "kind": "record", "fail-on": "error", "format": "text"}

PROG = "mypt-lint"
EPILOG = """\
examples:
  mypt-lint data.jsonl                        one file; exit status 0 clean, 1 findings, 2 failure
  mypt-lint data/ 'more/**/*.jsonl.gz'        folders and patterns, .gz and .zst too
  mypt-lint --phase 3 --fail-on warning phase3.jsonl
  mypt-lint --format github data.jsonl        annotations in a GitHub workflow
  mypt-lint --dialect auto data/              other formats; says which
  mypt-lint --kind text episode.txt           serialised text instead of JSONL
  generate | mypt-lint --kind generation -    is it a legal (beginning of a) turn?
  mypt-lint sft                               a folder that mypt-prepare has made
  mypt-lint --fix data/                       repair what is safe to repair; --diff shows it first
  zcat x.gz | mypt-lint --fix -o fixed.jsonl -
  mypt-lint explain MYP202                    also: rules, init, completion, server
"""


def parser() -> argparse.ArgumentParser:
    out = command_line(PROG, "Check chat training data against the grammar of its format.", EPILOG)
    add = out.add_argument
    add(
        "paths", nargs="*", metavar="PATH", help="files, folders, patterns, or - for standard input"
    )
    add(
        "--dialect",
        metavar="NAME",
        help="the format of the data, or auto to find out for every file (default: "
        f"{DEFAULTS['dialect']})",
    )
    add("--kind", choices=("record", "text", "generation"),
        help="JSONL records, serialised text, or what a model wrote (default: "
             f"{DEFAULTS['kind']})")  # fmt: skip
    add(
        "--phase",
        type=int,
        metavar="N",
        help="allow only what the curriculum has introduced by phase N",
    )
    add("--max-tokens", type=positive, metavar="N", help="report episodes of more than N tokens")
    add(
        "--tool",
        action="append",
        default=[],
        metavar="NAME",
        help="declare a tool, beside those in the system prompt",
    )
    add(
        "--data-set",
        action="store_true",
        help="compare the episodes of all files too: duplicates, overlap, sources, languages "
        "(MYP6)",
    )
    add(
        "--eval",
        action="append",
        metavar="GLOB",
        help="with --data-set: files for evaluation; without it, their names say so (eval, val, "
        "test)",
    )
    add(
        "--eval-prompts",
        metavar="FILE",
        help="with --data-set: prompts, one a line, that must not be trained on",
    )
    add(
        "--select",
        action="append",
        metavar="CODES",
        help="report only these: codes, beginnings of codes (MYP2), or names; comma-separated",
    )
    add_settings(add)
    add("--fail-on", choices=("error", "warning", "info"),
        help="lowest severity that makes the exit status 1 (default: "
             f"{DEFAULTS['fail-on']})")  # fmt: skip
    add(
        "--exit-zero",
        action="store_true",
        help="exit with 0 whatever is found; failures still are 2",
    )
    add(
        "--exclude",
        action="append",
        default=[],
        metavar="PATTERN",
        help="in folders and patterns, leave out what matches, written as in .gitignore",
    )
    add(
        "--no-respect-gitignore",
        action="store_true",
        help="read what .gitignore files leave out, too",
    )
    add("--format", action="append", metavar="NAME[=FILE]",
        help=f"how findings are printed: {', '.join(_FORMATS)} (default: {DEFAULTS['format']}); "
             "more than one with a file each")  # fmt: skip
    add(
        "--show-all",
        action="store_true",
        help="print all findings of a kind in text and grouped, not the first three of a file",
    )
    add(
        "--show-settings",
        action="store_true",
        help="print the settings, for each file if some are named, and where they come from",
    )
    out_option = add(
        "-o",
        "--out",
        "--output",
        dest="output",
        metavar="FILE",
        help="write the findings to FILE; with --fix the fixed data, - for standard output",
    )
    hide(out_option, "--output")
    add(
        "--fix",
        action="store_true",
        help="repair what has a safe fix, in place, then report what is left",
    )
    add(
        "--unsafe-fixes",
        action="store_true",
        help="with --fix, --fix-only or --diff: make the fixes too that may change content",
    )
    add("--fix-only", action="store_true", help="as --fix, but report nothing else and exit with 0")
    add(
        "--diff",
        action="store_true",
        help="show as a diff what --fix would change, and write nothing; exit status 1 if anything",
    )
    add(
        "--write-baseline",
        metavar="FILE",
        help="write what is found now to FILE as known, and exit with 0",
    )
    add(
        "--baseline",
        metavar="FILE",
        help="report only what FILE does not know; an edited episode is known no more",
    )
    add(
        "--prune-baseline",
        action="store_true",
        help="with --baseline: take out of FILE what is found no more",
    )
    add("--statistics", action="store_true", help="print counts by rule instead of the findings")
    add("--watch", action="store_true", help="run again whenever a file changes")
    add(
        "-j",
        "--jobs",
        type=int,
        default=0,
        metavar="N",
        help="processes; 0 chooses by size and cores (default)",
    )
    add("-q", "--quiet", action="store_true", help="print findings and nothing else")
    add("--explain", metavar="CODE", help="explain a rule (code or name, or `all`) and exit")
    add("--version", action="version", version=f"{PROG} {__version__}")
    return out


def add_settings(add: Callable[..., Any]) -> None:
    """Add the options that say which settings hold; they are the same for every command that reads
    data.
    """
    add(
        "--ignore",
        action="append",
        metavar="CODES",
        help="leave these findings out, as codes, beginnings of codes, or names; comma-separated",
    )
    add(
        "--config",
        metavar="FILE",
        help="settings; without it, mypt-lint.toml or [tool.mypt-lint] in pyproject.toml, here or "
        "above",
    )
    add("--no-config", action="store_true", help="look for no settings")


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a positive number")
    return number


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    given = list(sys.argv[1:] if argv is None else argv)
    return run(PROG, lambda: _run(given), gone=FOUND)


def _run(given: list[str]) -> int:
    if given[:1] and (meant := _meant(given[0])):
        raise UsageError(f"{given[0]}: no such file or folder; did you mean mypt-lint {meant}?")
    if given[:1] and given[0] in COMMANDS:
        return _command(given[0], given[1:])
    options = parser().parse_args(given)
    if options.explain:
        return _command("explain", [options.explain])
    from mypt_lint.session import lint, watched

    if options.watch:
        watched(options, defaults=DEFAULTS, folders=_prepared)
    return lint(options, defaults=DEFAULTS, folders=_prepared)


def _meant(word: str) -> str:
    """The command that a word that names nothing misspells, if any."""
    if word in COMMANDS or word.startswith("-") or len(word) > 20 or os.path.lexists(word):
        return ""
    return nearest(word, COMMANDS, cutoff=0.75)


def _command(name: str, arguments: list[str]) -> int:
    from mypt_lint.commands import run as run_command

    return run_command(name, arguments, parser(), DEFAULTS)


def _prepared(folders: list[str], codes: frozenset[str]) -> Iterator[Chunk]:
    """What is wrong with prepared data sets."""
    if folders:
        from mypt_train.data.verify import check_folder

        for folder in folders:
            yield from check_folder(folder, codes)


if __name__ == "__main__":
    sys.exit(main())
