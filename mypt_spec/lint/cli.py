"""The command `mypt-lint`. Findings go to stdout, progress and the summary to stderr. Design section 7."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mypt_spec import __version__

if TYPE_CHECKING:
    from mypt_spec.lint.runner import Chunk

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
    out = argparse.ArgumentParser(
        prog="mypt-lint",
        description="Check chat training data against the grammar of its format.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = out.add_argument
    add(
        "paths", nargs="*", metavar="PATH", help="files, folders, patterns, or - for standard input"
    )
    add(
        "--dialect",
        metavar="NAME",
        help=f"the format of the data, or auto to find out for every file (default: {DEFAULTS['dialect']})",
    )
    add("--kind", choices=("record", "text", "generation"),
        help=f"JSONL records, serialised text, or what a model wrote (default: {DEFAULTS['kind']})")  # fmt: skip
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
        help="compare the episodes of all files too: duplicates, overlap, sources, languages (MYP6)",
    )
    add(
        "--eval",
        action="append",
        metavar="GLOB",
        help="with --data-set: files for evaluation; without it, their names say so (eval, val, test)",
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
    add(
        "--ignore", action="append", metavar="CODES", help="do not report these; wins over --select"
    )
    add("--fail-on", choices=("error", "warning", "info"),
        help=f"lowest severity that makes the exit status 1 (default: {DEFAULTS['fail-on']})")  # fmt: skip
    add("--format", action="append", metavar="NAME[=FILE]",
        help=f"how findings are printed: {', '.join(_FORMATS)} (default: {DEFAULTS['format']}); more than one with a file each")  # fmt: skip
    add(
        "--show-all",
        action="store_true",
        help="print all findings of a kind in text and grouped, not the first three of a file",
    )
    add(
        "--config",
        metavar="FILE",
        help="settings; without it, mypt-lint.toml or [tool.mypt-lint] in pyproject.toml, here or above",
    )
    add("--no-config", action="store_true", help="look for no settings")
    add(
        "--show-settings",
        action="store_true",
        help="print the settings, for each file if some are named, and where they come from",
    )
    add(
        "-o",
        "--output",
        metavar="FILE",
        help="write the findings to FILE; with --fix the fixed data, - for standard output",
    )
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
    add("--version", action="version", version=f"mypt-lint {__version__}")
    return out


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a positive number")
    return number


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        if given[:1] and given[0] in COMMANDS:
            status = _command(given[0], given[1:])
        else:
            options = parser().parse_args(given)
            status = _command("explain", [options.explain]) if options.explain else _run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("mypt-lint: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (`| head`); what is still in the buffer has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FOUND
    return status


def _command(name: str, arguments: list[str]) -> int:
    from mypt_spec.lint.commands import run
    from mypt_spec.lint.errors import UsageError

    try:
        return run(name, arguments, parser(), DEFAULTS)
    except UsageError as error:
        return _fail(str(error))


def _run(options: argparse.Namespace) -> int:
    from mypt_spec.lint.errors import UsageError
    from mypt_spec.lint.session import lint, watched

    try:
        if options.watch:
            watched(options, defaults=DEFAULTS, folders=_prepared)
        return lint(options, defaults=DEFAULTS, folders=_prepared)
    except UsageError as error:
        return _fail(str(error))


def _fail(message: str) -> int:
    print(f"mypt-lint: error: {message}", file=sys.stderr)
    return FAILED


def _prepared(folders: list[str], codes: frozenset[str]) -> Iterator[Chunk]:
    """What is wrong with prepared data sets."""
    if folders:
        from mypt_train.check import check_folder

        for folder in folders:
            yield from check_folder(folder, codes)


if __name__ == "__main__":
    sys.exit(main())
