"""One run of the command: options in, output out, exit status back."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import chain
from typing import Any, TextIO

import mypt_spec
from mypt_spec.findings import SEVERITIES
from mypt_spec.lint.check import Checker
from mypt_spec.lint.detect import candidates, detect
from mypt_spec.lint.errors import UsageError
from mypt_spec.lint.files import SUFFIXES, expand, is_prepared
from mypt_spec.lint.located import Summary
from mypt_spec.lint.progress import Bar
from mypt_spec.lint.render import renderer
from mypt_spec.lint.render.totals import fixable_line, fixed_line, statistics, summary_line
from mypt_spec.lint.runner import Chunk, run
from mypt_spec.lint.selection import UnknownRuleError, selection
from mypt_spec.lint.sources import Source

CLEAN, FOUND, FAILED = 0, 1, 2
AUTO = "auto"
_SUFFIXES = {"text": (".txt", ".text", ".log"), "generation": (".txt", ".text", ".jsonl", ".ndjson")}
_PARALLEL = 16 << 20  # bytes from which on more than one process pays for itself
Runs = list[tuple[Checker, list[Source]]]
Folders = Callable[[list[str], frozenset[str]], Iterator[Chunk]]


def lint(options: argparse.Namespace, *, first: str, folders: Folders) -> int:
    """The exit status. `first` is the dialect to prefer, `folders` checks prepared data sets. Raises UsageError."""
    if not options.paths:
        raise UsageError("nothing to check; name files or folders, or - for standard input (see mypt-lint --help)")
    codes = _codes(options)
    prepared = sorted({path for path in options.paths if is_prepared(path)})
    sources = expand([path for path in options.paths if path not in prepared], suffixes=_SUFFIXES.get(options.kind, SUFFIXES))
    sources.sort(key=lambda source: source.path)
    if options.dialect == AUTO:
        runs = _detected(sources, options, codes, first)
    else:
        runs = [(_checker(options.dialect, options, codes), sources)]
    if options.fix or options.fix_only or options.diff:
        return _fix(runs, prepared, codes, options, folders)
    if options.unsafe_fixes:
        raise UsageError("--unsafe-fixes needs --fix, --fix-only or --diff")
    total, failed = _report(runs, folders(prepared, codes), options, unit=_unit(options, prepared))
    if not options.quiet:
        print(summary_line(total), file=sys.stderr)
        if total.fixable:
            print(fixable_line(total), file=sys.stderr)
    return failed


def _fix(runs: Runs, prepared: list[str], codes: frozenset[str], options: argparse.Namespace, folders: Folders) -> int:
    """Fix, then say what is left; or show what fixing would change."""
    from mypt_spec.lint.fixfiles import fix_sources

    if prepared:
        raise UsageError(f"{prepared[0]} is a prepared data set, which is not fixed; fix its source and prepare it again")
    if options.output == "-" and not options.fix_only:
        raise UsageError("-o - writes the fixed data to standard output, where the findings go; add --fix-only, or name a file")
    output = options.output
    diff = _binary(sys.stdout).write if options.diff else None
    if diff and output:
        raise UsageError("--diff writes nothing: leave out -o")
    after, fixes = fix_sources(runs, options.kind, unsafe=options.unsafe_fixes, output=output, diff=diff)
    for reason in fixes.refused if not options.quiet else ():
        print(reason, file=sys.stderr)
    if options.diff or options.fix_only:
        if not options.quiet:
            print(fixed_line(fixes.by_severity, None, would=options.diff, files=len(fixes.files)), file=sys.stderr)
        return FOUND if options.diff and fixes.files else CLEAN
    options.output = None
    total, status = _report(after, iter(()), options, unit=_unit(options, []))
    if not options.quiet:
        print(summary_line(total), file=sys.stderr)
        print(fixed_line(fixes.by_severity, total.by_severity, would=False, files=len(fixes.files)), file=sys.stderr)
    return status


def _unit(options: argparse.Namespace, prepared: list[str]) -> str:
    return "episode" if prepared else {"record": "line", "text": "episode", "generation": "generation"}[options.kind]


def _codes(options: argparse.Namespace) -> frozenset[str]:
    try:
        return selection(options.select, options.ignore)
    except UnknownRuleError as error:
        raise UsageError(str(error)) from None


def _checker(
    name: str, options: argparse.Namespace, codes: frozenset[str], *, others: tuple[mypt_spec.Dialect, ...] = ()
) -> Checker:
    if name not in mypt_spec.dialects():
        raise UsageError(f"no dialect {name!r}; known are {AUTO}, {', '.join(mypt_spec.dialects())}")
    dialect = mypt_spec.dialect(name)
    phases = len(dialect.table.phases)
    if options.phase is not None and not 1 <= options.phase <= phases:
        has = f"has phases 1 to {phases}" if phases else "has no phases"
        raise UsageError(f"--phase {options.phase}: {dialect.name} {has}")
    limits = mypt_spec.Limits(options.phase, options.max_tokens, frozenset(options.tool))
    if options.max_tokens:
        dialect.tokenizer.encode("")  # a missing vocabulary is said now, not on the first long line
    return Checker(dialect, limits, codes, others)


def _detected(sources: list[Source], options: argparse.Namespace, codes: frozenset[str], first: str) -> Runs:
    """The sources with a checker for the dialect of each, which is said."""
    known = candidates(first)
    checkers: dict[str, Checker] = {}
    runs: Runs = []
    for source in sources:
        guess = detect(source, options.kind, known)
        name = guess.dialect.name
        if name not in checkers:
            others = tuple(d for d in known if d is not guess.dialect)
            checkers[name] = _checker(name, options, codes, others=others if guess.sure else ())
        runs.append((checkers[name], [guess.source]))
        if not options.quiet:
            also = f" ({', '.join(guess.others)} would fit as well; choose with --dialect)" if guess.others and guess.sure else ""
            doubt = "" if guess.sure else " is taken for it: nothing at its beginning is legal in any dialect; choose with --dialect"
            print(f"{source.path}: {name}{also}{doubt}", file=sys.stderr)
    return runs


def _report(runs: Runs, folders: Iterator[Chunk], options: argparse.Namespace, *, unit: str) -> tuple[Summary, int]:
    """Write the findings; gives what was counted, and the exit status."""
    total = Summary(unit_name=unit)
    all_sources = [source for _, sources in runs for source in sources]
    chunks = (run(checker, sources, options.kind, jobs=_jobs(options.jobs, sources)) for checker, sources in runs)
    with _opened(options.output) as stream, Bar(all_sources, quiet=options.quiet) as bar:
        output = _Quiet() if options.statistics else renderer(options.format, stream)
        for chunk in chain(chain.from_iterable(chunks), folders):
            bar.at(chunk.position)
            total.add(chunk.summary)
            for located in chunk.found:
                output.finding(located)
            if chunk.summary.files:
                bar.next()
        output.finish(total)
        if options.statistics:
            stream.write("\n".join(statistics(total)) + "\n")
        stream.flush()
    if total.by_code["MYP901"]:
        return total, FAILED
    counted = SEVERITIES[SEVERITIES.index(options.fail_on) :]
    return total, FOUND if any(total.by_severity[s] for s in counted) else CLEAN


def _opened(path: str | None) -> Any:
    if path in (None, "-"):
        return nullcontext(utf8(sys.stdout))
    try:
        return open(str(path), "w", encoding="utf-8", newline="")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None


class _Quiet:
    def finding(self, located: object) -> None:
        pass

    def finish(self, summary: Summary) -> None:
        pass


def utf8(stream: TextIO) -> TextIO:
    """A pipe with a narrow encoding must not lose what findings quote."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None and not stream.isatty():
        reconfigure(encoding="utf-8")
    return stream


def _binary(stream: TextIO) -> Any:
    return getattr(stream, "buffer", stream)


def _jobs(wanted: int, sources: list[Source]) -> int:
    if wanted > 0:
        return wanted
    size = sum(source.size or 0 for source in sources)
    return min(os.cpu_count() or 1, 8, max(1, size // _PARALLEL))
