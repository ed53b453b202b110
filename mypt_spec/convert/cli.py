"""The command `mypt-convert`. Records go to the output, everything else to stderr."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from mypt_spec import __version__

CLEAN, REFUSED, FAILED, INTERRUPTED = 0, 1, 2, 130

EPILOG = """\
examples:
  mypt-convert chats.jsonl -o mypt.jsonl --from openai --to mypt --on-loss warn
  mypt-convert phase4.jsonl -o out.jsonl --to usf-omega         from mypt, refusing what would lose something
  mypt-convert a.jsonl.gz b.jsonl -o - --from gabgpt --to mypt --system "You are MyPT."

Every record is written or refused, and the counts add up. Exit status: 0 all written, 1 some refused, 2 failure.
docs/conversion.md says what survives between which formats.
"""


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog="mypt-convert",
        description="Convert chat training data from one format to another, and say what is lost.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = out.add_argument
    add(
        "paths",
        nargs="+",
        metavar="IN.jsonl",
        help="files, folders, patterns, or - for standard input; .gz and .zst too",
    )
    add(
        "-o",
        "--output",
        required=True,
        metavar="OUT.jsonl",
        help="where the records go, or - for standard output; .gz is compressed",
    )
    add(
        "--from",
        dest="source",
        default="mypt",
        metavar="FORMAT",
        help="openai, or a dialect (default: %(default)s)",
    )
    add("--to", dest="target", required=True, metavar="DIALECT", help="the dialect to write")
    add("--on-loss", choices=("error", "warn", "drop"), default="error",
        help="a record that would lose something: refuse it, write it and say so, or write it and count it (default: %(default)s)")  # fmt: skip
    add(
        "--system",
        metavar="TEXT",
        help="the system prompt of records that have none, where the target has one",
    )
    add("--report", metavar="PATH", help="write the counts as JSON")
    add("-q", "--quiet", action="store_true", help="no progress, no summary")
    add("--version", action="version", version=f"mypt-convert {__version__}")
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    from mypt_spec.lint.errors import UsageError

    options = parser().parse_args(argv)
    try:
        return _run(options)
    except UsageError as error:
        print(f"mypt-convert: error: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("mypt-convert: interrupted; nothing was written", file=sys.stderr)
        return INTERRUPTED


def _run(options: argparse.Namespace) -> int:
    from mypt_spec.convert.engine import Converter
    from mypt_spec.convert.report import Report
    from mypt_spec.convert.stream import Output, lines
    from mypt_spec.lint.errors import UsageError
    from mypt_spec.lint.files import expand
    from mypt_spec.lint.progress import Bar

    try:
        converter = Converter(options.source, options.target, system=options.system)
    except KeyError as error:
        raise UsageError(error.args[0]) from None
    sources = expand(options.paths)
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
        for source in sources:
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
