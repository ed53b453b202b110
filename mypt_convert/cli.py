"""The command `mypt-convert`. Records go to the output, everything else to stderr."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from mypt_cli.parser import hide
from mypt_cli.parser import parser as command_line
from mypt_cli.run import run
from mypt_lint.cli import DEFAULTS, add_settings
from mypt_spec import __version__

if TYPE_CHECKING:
    from mypt_cli.jsonl.blocks import Source

CLEAN, REFUSED = 0, 1

PROG = "mypt-convert"
EPILOG = """\
examples:
  mypt-convert chats.jsonl -o mypt.jsonl --from openai --to mypt --on-loss warn
  mypt-convert phase4.jsonl -o out.jsonl --to usf-omega     from mypt, refusing all losses
  mypt-convert a.jsonl.gz b.jsonl -o - --from gabgpt --to mypt --system "You are MyPT."

Every record is written or refused, and the counts add up. What mypt-lint lets pass by the same
settings is converted; unknown keys are kept as metadata, "note" as "_note". Exit status: 0 all
written, 1 some refused, 2 failure. docs/conversion.md says what survives between which formats.
"""


def parser() -> argparse.ArgumentParser:
    out = command_line(
        PROG, "Convert chat training data from one format to another, and say what is lost.", EPILOG
    )
    add = out.add_argument
    add(
        "paths",
        nargs="+",
        metavar="IN.jsonl",
        help="files, folders, patterns, or - for standard input; .gz and .zst too",
    )
    out_option = add(
        "-o",
        "--out",
        "--output",
        dest="output",
        required=True,
        metavar="OUT.jsonl",
        help="where the records go, or - for standard output; .gz is compressed",
    )
    hide(out_option, "--output")
    add(
        "--from",
        dest="source",
        metavar="FORMAT",
        help="openai, a dialect, or auto to find out (default: that of the settings, or mypt)",
    )
    add("--to", dest="target", required=True, metavar="DIALECT", help="the dialect to write")
    add("--on-loss", choices=("error", "warn", "drop"), default="error",
        help="a record that would lose something: refuse it, write it and say so, or write it and "
             "count it (default: %(default)s)")  # fmt: skip
    add(
        "--system",
        metavar="TEXT",
        help="the system prompt of records that have none, where the target has one",
    )
    add("--report", metavar="PATH", help="write the counts as JSON")
    add_settings(add)
    add("-q", "--quiet", action="store_true", help="no progress, no summary")
    add("--version", action="version", version=f"{PROG} {__version__}")
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    return run(
        PROG,
        lambda: _run(parser().parse_args(argv)),
        interrupted="interrupted; nothing was written",
    )


def _run(options: argparse.Namespace) -> int:
    from mypt_cli.errors import UsageError
    from mypt_cli.jsonl.atomic import Output
    from mypt_cli.jsonl.values import lines
    from mypt_cli.progress import Bar
    from mypt_convert.engine import Converter
    from mypt_convert.formats import formats_of
    from mypt_convert.report import Report
    from mypt_lint.run.plan import AUTO, Plan, given
    from mypt_lint.settings import config

    def say(text: str) -> None:
        if not options.quiet:
            print(f"{PROG}: {text}", file=sys.stderr)

    def converter_of(source: Source) -> tuple[Converter, Source]:
        """Returns the converter by the settings of a source, and what to read instead of it."""
        own, name = plan.of(source.path), plan.of(source.path)["dialect"]
        if name == AUTO:
            _, name, _, source = plan.resolved(source, say)
        try:
            return Converter(name, options.target, system=options.system, rules=own), source
        except KeyError as error:
            raise UsageError(error.args[0]) from None

    plan = Plan(given(options) | {"dialect": options.source}, config.asked(options), DEFAULTS)
    sources = plan.files(options.paths)
    if left_out := plan.left_out.line():
        say(left_out)
    found = [converter_of(source) for source in sources]
    report = Report(sys.stderr, on_loss=options.on_loss)
    taken = [source.path for source in sources]
    with ExitStack() as stack:
        output = stack.enter_context(Output(options.output, taken))
        counts = (
            stack.enter_context(Output(options.report, [*taken, options.output]))
            if options.report
            else None
        )
        bar = stack.enter_context(Bar(sources, quiet=options.quiet))
        for converter, looked in found:
            formats, source = formats_of(looked, converter)
            report.misnamed(source.path, converter.source, formats)
            for line in lines(source):
                bar.at(line.position)
                record = report.add(
                    line, converter.record(line.value) if line.fault is None else None
                )
                if record is not None:
                    output.write(record)
            bar.next()
        if counts is not None:
            counts.write(report.as_dict())
    if not options.quiet:
        print("\n".join(report.lines()), file=sys.stderr)
    return REFUSED if report.refused else CLEAN


if __name__ == "__main__":
    sys.exit(main())
