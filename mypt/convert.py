"""Reads the command line of `mypt-convert`. Records go to the output, all else to stderr."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from mypt.options import options
from mypt_cli.command import Command
from mypt_cli.errors import UsageError
from mypt_cli.run import saying
from mypt_records.names import NATIVE

if TYPE_CHECKING:
    from mypt_cli.jsonl.blocks import Source
    from mypt_convert.engine import Converter, ReadFunction

CLEAN, REFUSED = 0, 1

PROG = "mypt-convert"


def _run(options: argparse.Namespace) -> int:
    from mypt_cli.jsonl.output import Output
    from mypt_cli.jsonl.values import lines
    from mypt_cli.progress import Bar
    from mypt_convert.report import Report
    from mypt_lint.check import from_settings
    from mypt_lint.run.plan import planned
    from mypt_lint.run.resolve import format_of

    def converter_of(source: Source) -> tuple[Converter, Source]:
        """Returns the converter by the settings of a source, and what to read instead of it."""
        name, settings, fresh_source = format_of(plan, source, say)
        try:
            return from_settings.converter(settings, name, options.target), fresh_source
        except KeyError as error:
            raise UsageError(error.args[0]) from None

    say = saying(PROG, quiet=options.quiet)
    name_of_source = "records" if options.source == NATIVE else "dialect"
    plan = planned(options, **{name_of_source: options.source})
    sources = plan.files(options.paths, say=say)
    converters = [converter_of(source) for source in sources]
    report = Report(sys.stderr, on_loss=options.on_loss)
    paths = [source.path for source in sources]
    report_path = options.report
    with (
        Output(options.output, paths) as output,
        Output(report_path, [*paths, options.output]) if report_path else nullcontext() as counts,
        Bar(sources, quiet=options.quiet) as bar,
    ):
        for converter, fresh_source in converters:
            formats, source = _formats_of(fresh_source, converter)
            report.misnamed(source.path, converter.source, formats)
            for line in lines(source):
                bar.at(line.position)
                outcome = None if line.fault else converter.record(line.value, line.spots)
                if (record := report.add(line, outcome)) is not None:
                    output.write(record)
            bar.next()
        if counts is not None:
            counts.write(report.as_dict())
    if not options.quiet:
        print("\n".join(report.lines()), file=sys.stderr)
    return REFUSED if report.refused else CLEAN


def _formats_of(source: Source, converter: Converter) -> tuple[tuple[str, ...], Source]:
    """Returns the formats that explain the records of a source, if it is not in the converter's.

    See `detect.elsewhere`. Of several formats, those are returned that know most of the keys of the
    records. A source that its own format can read, but for unknown keys, is in another format only
    if that one knows more.
    """
    from mypt_convert.engine import reader
    from mypt_lint.check.detect import elsewhere
    from mypt_lint.check.from_settings import source_judge
    from mypt_lint.settings.settings import NO_SETTINGS
    from mypt_records.shapes import SHAPES, shape_of
    from mypt_spec.dialect import detectable_dialects

    unknown: Counter[str] = Counter()
    refused = False

    def fits(value: object, name: str, read: ReadFunction) -> bool:
        if name in SHAPES and shape_of(value) != name:  # some shapes read the records of others
            return False
        conversation, findings, _ = read(value)
        unknown[name] += len(findings)
        return conversation is not None

    def codes(value: object) -> frozenset[str]:
        nonlocal refused
        conversation, findings, _ = converter.take_apart(value)
        refused = refused or conversation is None
        unknown[converter.source] += len(findings)
        return frozenset(f.code for f in findings)

    names = [name for name in (*detectable_dialects(), *SHAPES) if name != converter.source]
    others = {
        name: partial(fits, name=name, read=reader(name, source_judge(NO_SETTINGS, name)))
        for name in names
    }
    matches, source = elsewhere(source, codes, others)
    fewest = min((unknown[name] for name in matches), default=0)
    if not refused and fewest >= unknown[converter.source]:
        return (), source
    return tuple(name for name in matches if unknown[name] == fewest), source


main = Command(
    PROG, __file__, options(__file__), _run, interrupted="interrupted; nothing was written"
)

if __name__ == "__main__":
    sys.exit(main())
