"""The command `mypt-lint`. Findings go to stdout, progress and the summary to stderr. Design section 7."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TextIO

from mypt_spec import __version__

if TYPE_CHECKING:
    from mypt_spec.frontdoor import Dialect
    from mypt_spec.lint.check import Checker
    from mypt_spec.lint.located import Summary
    from mypt_spec.lint.runner import Chunk
    from mypt_spec.lint.sources import Source

CLEAN, FOUND, FAILED, INTERRUPTED = 0, 1, 2, 130
AUTO = "auto"
_FORMATS = ("text", "concise", "json", "jsonl", "github", "sarif")
_SUFFIXES = {"text": (".txt", ".text", ".log"), "generation": (".txt", ".text", ".jsonl", ".ndjson")}
_PARALLEL = 16 << 20  # bytes from which on more than one process pays for itself

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
  mypt-lint --explain MYP202
"""


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog="mypt-lint",
        description="Check chat training data against the grammar of its format.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = out.add_argument
    add("paths", nargs="*", metavar="PATH", help="files, folders, patterns, or - for standard input")
    add("--dialect", default="mypt", metavar="NAME",
        help="the format of the data, or auto to find out for every file (default: %(default)s)")  # fmt: skip
    add("--kind", choices=("record", "text", "generation"), default="record",
        help="JSONL records, serialised text, or what a model wrote (default: %(default)s)")  # fmt: skip
    add("--phase", type=int, metavar="N", help="allow only what the curriculum has introduced by phase N")
    add("--max-tokens", type=positive, metavar="N", help="report episodes of more than N tokens")
    add("--tool", action="append", default=[], metavar="NAME", help="declare a tool, beside those in the system prompt")
    add("--select", action="append", metavar="CODES", help="report only these: codes, beginnings of codes (MYP2), or names; comma-separated")
    add("--ignore", action="append", metavar="CODES", help="do not report these; wins over --select")
    add("--fail-on", choices=("error", "warning", "info"), default="error",
        help="lowest severity that makes the exit status 1 (default: %(default)s)")  # fmt: skip
    add("--format", choices=_FORMATS, default="text", help="how findings are printed (default: %(default)s)")
    add("--statistics", action="store_true", help="print counts by rule instead of the findings")
    add("-j", "--jobs", type=int, default=0, metavar="N", help="processes; 0 chooses by size and cores (default)")
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
    options = parser().parse_args(argv)
    try:
        status = _explain(options.explain) if options.explain else _lint(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("mypt-lint: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (`| head`); what is still in the buffer has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FOUND
    return status


def _explain(wanted: str) -> int:
    from mypt_spec.lint.selection import UnknownRuleError, named
    from mypt_spec.rules.pages import page

    try:
        codes = named(wanted)
    except UnknownRuleError as error:
        return _fail(str(error))
    print("\n\n".join(page(code) for code in codes))
    return CLEAN


def _fail(message: str) -> int:
    print(f"mypt-lint: error: {message}", file=sys.stderr)
    return FAILED


def _lint(options: argparse.Namespace) -> int:
    from mypt_spec.lint.errors import UsageError
    from mypt_spec.lint.files import SUFFIXES, expand, is_prepared

    if not options.paths:
        return _fail("nothing to check; name files or folders, or - for standard input (see mypt-lint --help)")
    try:
        codes = _codes(options)
        prepared = sorted({path for path in options.paths if is_prepared(path)})
        sources = expand([path for path in options.paths if path not in prepared], suffixes=_SUFFIXES.get(options.kind, SUFFIXES))
        sources.sort(key=lambda source: source.path)
        if options.dialect == AUTO:
            runs = _detected(sources, options, codes)
        else:
            runs = [(_checker(options.dialect, options, codes), sources)]
        return _report(runs, prepared, codes, options)
    except UsageError as error:
        return _fail(str(error))


def _codes(options: argparse.Namespace) -> frozenset[str]:
    from mypt_spec.lint.errors import UsageError
    from mypt_spec.lint.selection import UnknownRuleError, selection

    try:
        return selection(options.select, options.ignore)
    except UnknownRuleError as error:
        raise UsageError(str(error)) from None


def _checker(name: str, options: argparse.Namespace, codes: frozenset[str], *, others: tuple[Dialect, ...] = ()) -> Checker:
    import mypt_spec
    from mypt_spec.lint.check import Checker
    from mypt_spec.lint.errors import UsageError

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


def _detected(sources: list[Source], options: argparse.Namespace, codes: frozenset[str]) -> list[tuple[Checker, list[Source]]]:
    """The sources with a checker for the dialect of each, which is said."""
    from mypt_spec.lint.detect import candidates, detect

    known = candidates(parser().get_default("dialect"))
    checkers: dict[str, Checker] = {}
    runs: list[tuple[Checker, list[Source]]] = []
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


def _prepared(folders: list[str], codes: frozenset[str]) -> Iterator[Chunk]:
    """What is wrong with prepared data sets."""
    if folders:
        from mypt_train.check import check_folder

        for folder in folders:
            yield from check_folder(folder, codes)


def _report(
    runs: list[tuple[Checker, list[Source]]], prepared: list[str], codes: frozenset[str], options: argparse.Namespace
) -> int:
    from mypt_spec.findings import SEVERITIES
    from mypt_spec.lint.located import Summary
    from mypt_spec.lint.progress import Bar
    from mypt_spec.lint.render import renderer
    from mypt_spec.lint.render.totals import statistics, summary_line
    from mypt_spec.lint.runner import run

    output = _Quiet() if options.statistics else renderer(options.format, utf8(sys.stdout))
    unit = "episode" if prepared else {"record": "line", "text": "episode", "generation": "generation"}[options.kind]
    total = Summary(unit_name=unit)
    all_sources = [source for _, sources in runs for source in sources]
    chunks = (run(checker, sources, options.kind, jobs=_jobs(options.jobs, sources)) for checker, sources in runs)
    with Bar(all_sources, quiet=options.quiet) as bar:
        for chunk in chain(chain.from_iterable(chunks), _prepared(prepared, codes)):
            bar.at(chunk.position)
            total.add(chunk.summary)
            for located in chunk.found:
                output.finding(located)
            if chunk.summary.files:
                bar.next()
    output.finish(total)
    if options.statistics:
        print("\n".join(statistics(total)))
    sys.stdout.flush()
    if not options.quiet:
        print(summary_line(total), file=sys.stderr)
    if total.by_code["MYP901"]:
        return FAILED
    counted = SEVERITIES[SEVERITIES.index(options.fail_on) :]
    return FOUND if any(total.by_severity[s] for s in counted) else CLEAN


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


def _jobs(wanted: int, sources: list[Source]) -> int:
    if wanted > 0:
        return wanted
    size = sum(source.size or 0 for source in sources)
    return min(os.cpu_count() or 1, 8, max(1, size // _PARALLEL))


if __name__ == "__main__":
    sys.exit(main())
