"""Reads the command line of `mypt-convert`. Records go to the output, all else to stderr."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from mypt_cli.command import Command
from mypt_cli.errors import UsageError
from mypt_cli.parser import Parser, dialect_name
from mypt_cli.run import saying
from mypt_lint.settings.options import add_ignore, add_settings, add_system
from mypt_records.names import AUTO, NAMES, NATIVE

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


def _options(out: Parser) -> None:
    add = out.group("input")
    add(
        "IN.jsonl",
        "files, folders, patterns, or - for standard input; .gz and .zst too",
        dest="paths",
        nargs="+",
    )
    add(
        "--from --records FORMAT",
        f"{', '.join(NAMES)}, native (of the dialect of the settings), a dialect, or auto to find "
        "out (default: that of the settings, or a shape that is found, or mypt)",
        dest="source",
        type=partial(dialect_name, more=(*NAMES, AUTO, NATIVE), what="format"),
    )
    add = out.group("conversion")
    add("--to DIALECT", "the dialect to write", dest="target", type=dialect_name, required=True)
    add(
        "--on-loss",
        "a record that would lose something: refuse it, write it and say so, or write it and count "
        "it",
        choices=("error", "warn", "drop"),
        default="error",
    )
    add_system(add)
    add_ignore(add)
    add = out.group("output")
    add(
        "-o --out OUT.jsonl",
        "where the records go, or - for standard output; .gz is compressed",
        dest="output",
        required=True,
        old=["--output"],
    )
    add("--report PATH", "write the counts as JSON")
    add_settings(out)


def _run(options: argparse.Namespace) -> int:
    from mypt.convert_formats import formats_of
    from mypt_cli.jsonl.output import Output
    from mypt_cli.jsonl.values import lines
    from mypt_cli.progress import Bar
    from mypt_convert.engine import Converter
    from mypt_convert.report import Report
    from mypt_lint.check import from_settings
    from mypt_lint.run.plan import planned

    def converter_of(source: Source) -> tuple[Converter, Source]:
        """Returns the converter by the settings of a source, and what to read instead of it."""
        name, settings, fresh_source = plan.format_of(source, say)
        try:
            return from_settings.converter(settings, name, options.target), fresh_source
        except KeyError as error:
            raise UsageError(error.args[0]) from None

    say = saying(PROG, quiet=options.quiet)
    native = options.source == NATIVE
    overrides = {"records": NATIVE} if native else {"dialect": options.source}
    plan = planned(options, **overrides)
    sources = plan.files(options.paths, say=say)
    converters = [converter_of(source) for source in sources]
    report = Report(sys.stderr, on_loss=options.on_loss)
    paths = [source.path for source in sources]
    with ExitStack() as stack:
        output = stack.enter_context(Output(options.output, paths))
        counts = (
            stack.enter_context(Output(options.report, [*paths, options.output]))
            if options.report
            else None
        )
        bar = stack.enter_context(Bar(sources, quiet=options.quiet))
        for converter, fresh_source in converters:
            formats, source = formats_of(fresh_source, converter)
            report.misnamed(source.path, converter.source, formats)
            for line in lines(source):
                bar.at(line.position)
                outcome = None if line.fault else converter.record(line.value, line.spots)
                record = report.add(line, outcome)
                if record is not None:
                    output.write(record)
            bar.next()
        if counts is not None:
            counts.write(report.as_dict())
    if not options.quiet:
        print("\n".join(report.lines()), file=sys.stderr)
    return REFUSED if report.refused else CLEAN


main = Command(
    PROG,
    "Convert chat training data from one format to another, and say what is lost.",
    EPILOG,
    _options,
    _run,
    interrupted="interrupted; nothing was written",
)

if __name__ == "__main__":
    sys.exit(main())
