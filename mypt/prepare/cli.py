"""Runs `mypt-prepare`: JSONL becomes training shards.

The summary goes to stdout, progress to stderr.
"""

import argparse
import os
import sys
from pathlib import Path

from mypt.prepare.options import DONE, REFUSED, add_inputs, add_output, request_of, summary
from mypt_cli.command import Command
from mypt_cli.errors import UsageError
from mypt_cli.parser import Parser
from mypt_cli.run import saying
from mypt_lint.settings.options import add_settings

PROG = "mypt-prepare"
ABOUT = "Make training shards with exact loss masks from checked JSONL."
EPILOG = Path(__file__).with_suffix(".txt")


def _options(out: Parser) -> None:
    add_inputs(out)
    add_output(out, "an empty folder, or a new one")
    add = out.group("output")
    add("--resume", "go on with what a run that was stopped has left")
    add_settings(out)
    add = out.group("performance")
    add(
        "-j --jobs N",
        "processes; 0 is one a core (default)",
        dest="workers",
        type=int,
        default=0,
        old=["--workers"],
    )


def _run(chosen: argparse.Namespace) -> int:
    from mypt_cli.progress import Bar
    from mypt_train.scale.prepare import prepare

    workers = chosen.workers or os.cpu_count() or 1
    _refuse_url(chosen.out)
    say = saying(PROG, quiet=chosen.quiet)
    sources, rules, options = request_of(chosen, say)
    with Bar(sources, quiet=chosen.quiet) as bar:
        manifest = prepare(
            sources,
            Path(chosen.out),
            options,
            rules=rules,
            workers=workers,
            resume=chosen.resume,
            progress=bar.show,
        )
    if not chosen.quiet:
        summary(manifest, chosen.out, options, say)
    return REFUSED if manifest["lines"]["refused"] else DONE


def _refuse_url(out: str) -> None:
    """Raises UsageError for a data set that is to be written into a store."""
    from mypt_cli.store import is_url, redacted

    if is_url(out):
        raise UsageError(
            f"--out is {redacted(out)}, expected a folder; write the data set into a local folder, "
            "and copy it with the client of the store"
        )


main = Command(
    PROG,
    ABOUT,
    EPILOG,
    _options,
    _run,
    errors=(ValueError,),
    interrupted="interrupted; go on with --resume",
)

if __name__ == "__main__":
    sys.exit(main())
