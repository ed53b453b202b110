"""One run of the command: options in, output out, exit status back."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain
from typing import Any, TextIO

import mypt_spec
from mypt_spec.findings import SEVERITIES
from mypt_spec.lint.baseline import Key
from mypt_spec.lint.baseline import read as read_baseline
from mypt_spec.lint.baseline import write as write_baseline
from mypt_spec.lint.check import Checker
from mypt_spec.lint.detect import candidates, detect
from mypt_spec.lint.errors import UsageError
from mypt_spec.lint.files import SUFFIXES, expand, is_prepared
from mypt_spec.lint.located import Summary
from mypt_spec.lint.progress import Bar
from mypt_spec.lint.render import renderer
from mypt_spec.lint.render.totals import counted, fixable_line, fixed_line, statistics, summary_line
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
    codes, known = _codes(options), _known(options)
    prepared = sorted({path for path in options.paths if is_prepared(path)})
    sources = expand([path for path in options.paths if path not in prepared], suffixes=_SUFFIXES.get(options.kind, SUFFIXES))
    sources.sort(key=lambda source: source.path)
    if options.dialect == AUTO:
        runs = _detected(sources, options, codes, first)
    else:
        runs = [(_checker(options.dialect, options, codes), sources)]
    runs = [(replace(checker, known=known), found) for checker, found in runs]
    if options.fix or options.fix_only or options.diff:
        return _fix(runs, prepared, codes, options, folders)
    if options.unsafe_fixes:
        raise UsageError("--unsafe-fixes needs --fix, --fix-only or --diff")
    total, status = _report(runs, folders(prepared, codes), options, unit=_unit(options, prepared), known=known)
    if not options.quiet:
        print(summary_line(total), file=sys.stderr)
        if total.fixable and not options.write_baseline:
            print(fixable_line(total), file=sys.stderr)
    return status


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
    total, status = _report(after, iter(()), options, unit=_unit(options, []), known=runs[0][0].known if runs else None)
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


def _known(options: argparse.Namespace) -> frozenset[Key] | None:
    """What the baseline knows; None without one."""
    if options.prune_baseline and not options.baseline:
        raise UsageError("--prune-baseline needs --baseline FILE")
    if not options.baseline and not options.write_baseline:
        return None
    if options.kind != "record":
        raise UsageError("a baseline knows records; it is for --kind record")
    if options.write_baseline and (options.baseline or options.fix or options.fix_only or options.diff):
        raise UsageError("--write-baseline stands alone: it takes all that is found now")
    return read_baseline(options.baseline) if options.baseline else frozenset()


def _baseline(options: argparse.Namespace, known: frozenset[Key] | None, found: set[Key], total: Summary) -> None:
    """Write or prune the baseline, and say what it did."""
    if options.write_baseline:
        write_baseline(options.write_baseline, found)
        say(f"{counted(len(found), 'finding')} written to {options.write_baseline}: known from now on.", options)
    elif known is not None:
        gone = known - found
        if options.prune_baseline and gone:
            write_baseline(options.baseline, known & found)
        say(f"{counted(total.known, 'finding')} known from {options.baseline}.", options)
        if gone:
            done = "taken out" if options.prune_baseline else "--prune-baseline takes them out"
            say(f"{counted(len(gone), 'entry')} of {options.baseline} found no more; {done}.", options)


def say(text: str, options: argparse.Namespace) -> None:
    """A line about the run, unless it is to be quiet."""
    if not options.quiet:
        print(text, file=sys.stderr)


def _report(
    runs: Runs, folders: Iterator[Chunk], options: argparse.Namespace, *, unit: str, known: frozenset[Key] | None = None
) -> tuple[Summary, int]:
    """Write the findings; gives what was counted, and the exit status."""
    found: set[Key] = set()
    total = Summary(unit_name=unit)
    all_sources = [source for _, sources in runs for source in sources]
    chunks = (run(checker, sources, options.kind, jobs=_jobs(options.jobs, sources)) for checker, sources in runs)
    with _opened(options.output) as stream, Bar(all_sources, quiet=options.quiet) as bar:
        output = _Quiet() if options.statistics or options.write_baseline else renderer(options.format, stream)
        for chunk in chain(chain.from_iterable(chunks), folders):
            bar.at(chunk.position)
            total.add(chunk.summary)
            found |= chunk.keys if options.write_baseline or known is None else chunk.keys & known
            for located in chunk.found:
                output.finding(located)
            if chunk.summary.files:
                bar.next()
        output.finish(total)
        if options.statistics:
            stream.write("\n".join(statistics(total)) + "\n")
        stream.flush()
    _baseline(options, known, found, total)
    if total.by_code["MYP901"]:
        return total, FAILED
    if options.write_baseline:
        return total, CLEAN
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
