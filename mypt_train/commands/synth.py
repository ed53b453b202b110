"""Runs `mypt-synth`: writes episodes of a phase of a curriculum as JSONL.

A summary goes to stderr.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from mypt_cli.parser import hide
from mypt_cli.parser import parser as command_line
from mypt_cli.run import run
from mypt_spec import __version__

DONE = 0
DIALECT = "mypt"

PROG = "mypt-synth"
EPILOG = """\
examples:
  mypt-synth --phase 3 -n 20000 --seed 1 -o phase3.jsonl
  mypt-synth --phase 3 -n 200 --split heldout -o phase3-heldout.jsonl
  mypt-synth --dialect mypt-3b --phase 2 -n 20000 -o tools.jsonl

Phases of mypt: 1 format lock, 2 operators, 3 chat of several turns, 4 simple tool calls, 5 several
calls with thoughts and citations. Of mypt-3b: 1 chat with context, 2 tools: search and summarize;
list, read and summarize; single calls. English and German, none twice; equal options give equal
bytes, and fewer episodes are the beginning of more. What a user says in one split is never said in
the other, whatever the seed. Exit status: 0 done, 2 failure.
"""


def parser() -> argparse.ArgumentParser:
    out = command_line(PROG, "Make up episodes of a curriculum, phase by phase.", EPILOG)
    add = out.add_argument
    add("--phase", type=int, required=True, metavar="N", help="1 to 5; of mypt-3b 1 or 2")
    add(
        "--dialect",
        default=DIALECT,
        metavar="NAME",
        help="mypt or mypt-3b; auto is mypt (default: %(default)s)",
    )
    count = add(
        "-n",
        "--number",
        "--n",
        dest="n",
        type=int,
        default=1000,
        metavar="N",
        help="episodes (default: %(default)s)",
    )
    hide(count, "--n")
    add("--seed", type=int, default=0, help="other episodes (default: %(default)s)")
    add(
        "--split",
        choices=("train", "heldout"),
        default="train",
        help="whose prompts (default: %(default)s)",
    )
    named = add(
        "-o",
        "--out",
        "--output",
        dest="output",
        default="-",
        metavar="FILE",
        help="default: -, stdout; .gz is compressed",
    )
    hide(named, "--output")
    add("-q", "--quiet", action="store_true", help="no progress, no summary")
    add("--version", action="version", version=f"{PROG} {__version__}")
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return run(
        PROG,
        lambda: _run(parser().parse_args(argv)),
        interrupted="interrupted; no file was written",
    )


def _run(chosen: argparse.Namespace) -> int:
    from mypt_cli.jsonl.atomic import Output
    from mypt_cli.progress import Bar
    from mypt_train.curriculum import episodes

    made = episodes(
        chosen.phase,
        chosen.n,
        seed=chosen.seed,
        split=chosen.split,
        dialect=DIALECT if chosen.dialect == "auto" else chosen.dialect,
    )
    shown = chosen.output != "-" or not sys.stdout.isatty()
    with (
        Output(chosen.output, ()) as out,
        Bar(chosen.n, unit="episodes", quiet=chosen.quiet or not shown) as bar,
    ):
        for number, record in enumerate(made, 1):
            out.write(record)
            bar.at(number)
    if not chosen.quiet:
        print(
            f"{chosen.output}: {chosen.n} episodes of phase {chosen.phase}, {chosen.split}, seed "
            f"{chosen.seed}",
            file=sys.stderr,
        )
    return DONE


if __name__ == "__main__":
    sys.exit(main())
