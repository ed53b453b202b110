"""Runs `mypt-synth`: writes episodes of a phase of a curriculum as JSONL.

A summary goes to stderr.
"""

import argparse
import sys

from mypt.options import options
from mypt_cli.command import Command

DIALECT = "mypt"

PROG = "mypt-synth"


def _run(chosen: argparse.Namespace) -> None:
    from mypt_cli.jsonl.output import Output
    from mypt_cli.progress import Bar
    from mypt_train.curriculum import episodes

    records = episodes(
        chosen.phase,
        chosen.n,
        seed=chosen.seed,
        split=chosen.split,
        dialect=DIALECT if chosen.dialect in (None, "auto") else chosen.dialect,
    )
    shows_progress = chosen.output != "-" or not sys.stdout.isatty()
    with (
        Output(chosen.output, ()) as out,
        Bar(chosen.n, unit="episodes", quiet=chosen.quiet or not shows_progress) as bar,
    ):
        for number, record in enumerate(records, 1):
            out.write(record)
            bar.at(number)
    if not chosen.quiet:
        print(
            f"{chosen.output}: {chosen.n} episodes of phase {chosen.phase}, {chosen.split}, seed "
            f"{chosen.seed}",
            file=sys.stderr,
        )


main = Command(
    PROG, __file__, options(__file__), _run, interrupted="interrupted; no file was written"
)

if __name__ == "__main__":
    sys.exit(main())
