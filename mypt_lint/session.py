"""Runs the linter once: options in, output out, exit status back.

It puts the parts in order: settings and files (run/plan), fixes (fix/files), the pass over the
lines (run/runner) and over the data set (dataset/compare), reports (report/outputs), and the
baseline.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from typing import NoReturn

from mypt_cli.errors import UsageError
from mypt_cli.jsonl.blocks import Source
from mypt_cli.jsonl.paths import is_prepared
from mypt_cli.progress import Bar
from mypt_cli.terminal import Display
from mypt_lint.check.diagnostic import Summary
from mypt_lint.report.outputs import Outputs, Silent, wanted
from mypt_lint.report.totals import counted, fixable_line, fixed_line, statistics, summary_line
from mypt_lint.run.chunk import Chunk
from mypt_lint.run.interleave import interleaved
from mypt_lint.run.plan import Group, Plan, planned
from mypt_lint.run.runner import run
from mypt_lint.settings import baseline
from mypt_lint.settings.baseline import Key
from mypt_lint.settings.selection import selection
from mypt_lint.watch import watch

CLEAN, FOUND, FAILED = 0, 1, 2
_UNITS = {"record": "line", "text": "episode", "generation": "generation"}
_PARALLEL = 16 << 20  # bytes of data for each process: fewer do not repay its start
Folders = Callable[[list[str], frozenset[str]], Iterator[Chunk]]


def lint(options: argparse.Namespace, *, folders: Folders) -> int:
    """Lints what the options name. Returns the exit status.

    `folders` checks prepared data sets.
    Raises UsageError.
    """
    plan = _plan(options)
    if options.show_settings:
        return _show_settings(plan, options.paths)
    if not options.paths:
        raise UsageError(
            "nothing to check; name files or folders, or - for standard input (see mypt-lint "
            "--help)"
        )
    accepted = known_keys(options, plan)
    prepared = sorted({path for path in options.paths if is_prepared(path)})
    sources = plan.sources([path for path in options.paths if path not in prepared])
    groups = plan.groups(sources, known=accepted, say=lambda text: _say(text, options))
    if options.fix or options.fix_only or options.diff:
        status = _fix(groups, plan, prepared, options, accepted)
        _say_left_out(plan, options)
        return CLEAN if options.exit_zero and status == FOUND else status
    if options.unsafe_fixes:
        raise UsageError("--unsafe-fixes needs --fix, --fix-only or --diff")
    total, status = _report(
        groups,
        folders(prepared, selection(plan.top["select"], plan.top["ignore"])),
        plan,
        options,
        accepted,
        unit="episode" if prepared else "",
    )
    _say(summary_line(total), options)
    _say_left_out(plan, options)
    if total.fixable and not options.write_baseline:
        _say(fixable_line(total), options)
    return CLEAN if options.exit_zero and status == FOUND else status


def watched(options: argparse.Namespace, *, folders: Folders) -> NoReturn:
    """Lints again after each change, until interrupted.

    Raises UsageError for what cannot be watched.
    """
    if (
        options.fix
        or options.fix_only
        or options.diff
        or options.write_baseline
        or "-" in options.paths
    ):
        raise UsageError("--watch only looks: leave out fixes, --write-baseline and standard input")
    plan = _plan(options)
    prepared = [path for path in options.paths if is_prepared(path)]
    own = [path for path in (plan.config.path,) if path]
    watch(
        lambda: lint(options, folders=folders),
        lambda: [
            *own,
            *prepared,
            *(
                s.path
                for s in plan.sources([path for path in options.paths if path not in prepared])
            ),
        ],
    )


def _plan(options: argparse.Namespace) -> Plan:
    plan = planned(options)
    plan.edits = any(name.startswith("sarif") for name in options.format or [plan.top["format"]])
    return plan


def _show_settings(plan: Plan, paths: list[str]) -> int:
    if not paths:
        print("\n".join(plan.top.lines()))
        return CLEAN
    for source in plan.sources(paths):
        print(f"[{source.path}]\n" + "\n".join(plan.of(source.path).lines()) + "\n")
    for path, why in sorted(plan.left_out.why.items()):
        print(Display(sys.stdout).line(f"# left out: {path} ({why})"))
    return CLEAN


def _fix(
    groups: list[Group],
    plan: Plan,
    prepared: list[str],
    options: argparse.Namespace,
    known: frozenset[Key] | None,
) -> int:
    """Fixes, then reports what is left; or shows what a fix would change. Returns the status."""
    from mypt_lint.fix.files import fix_sources

    if prepared:
        raise UsageError(
            f"{prepared[0]} is a prepared data set, which is not fixed; fix its source and prepare "
            "it again"
        )
    if options.output == "-" and not options.fix_only:
        raise UsageError(
            "-o - writes the fixed data to standard output, where the findings go; add --fix-only, "
            "or name a file"
        )
    diff = sys.stdout.buffer.write if options.diff else None
    if diff and options.output:
        raise UsageError("--diff writes nothing: leave out -o")
    repairs = None
    if plan.top["data-set"] and options.unsafe_fixes:
        if any(
            not source.divisible and not source.compressed
            for group in groups
            for source in group.sources
        ):
            raise UsageError(
                "for the fixes of --data-set, data is read twice, so it must be a file; leave out "
                "--data-set or --unsafe-fixes"
            )
        from mypt_lint.fix.dataset import Repairs

        repairs = Repairs(groups)
    on_screen = (options.diff or options.output == "-") and sys.stdout.isatty()
    sources = [source for group in groups for source in group.sources]
    with Bar(sources, quiet=options.quiet or on_screen) as bar:
        groups, fixes = fix_sources(
            groups,
            unsafe=options.unsafe_fixes,
            output=options.output,
            diff=diff,
            repairs=repairs,
            bar=bar,
        )
    for reason in fixes.refused:
        _say(reason, options)
    if options.diff or options.fix_only:
        _say(
            fixed_line(fixes.by_severity, None, would=options.diff, files=len(fixes.files)), options
        )
        return FOUND if options.diff and fixes.files else CLEAN
    options.output = None
    total, status = _report(groups, iter(()), plan, options, known)
    _say(summary_line(total), options)
    _say(
        fixed_line(fixes.by_severity, total.by_severity, would=False, files=len(fixes.files)),
        options,
    )
    return status


def known_keys(options: argparse.Namespace, plan: Plan) -> frozenset[Key] | None:
    """Returns the keys that the baseline knows; None without a baseline. Raises UsageError."""
    if options.write_baseline:
        if options.baseline or options.fix or options.fix_only or options.diff:
            raise UsageError("--write-baseline stands alone: it takes all that is found now")
        path = None
    else:
        path = plan.baseline
        if options.prune_baseline and not path:
            raise UsageError("--prune-baseline needs --baseline FILE")
        if not path:
            return None
    if plan.top["kind"] != "record":
        raise UsageError("a baseline knows records; it is for --kind record")
    return baseline.read(path) if path else frozenset()


def _baseline(
    options: argparse.Namespace,
    path: str | None,
    known: frozenset[Key] | None,
    found: set[Key],
    total: Summary,
) -> None:
    """Writes or prunes the baseline, and says what was done."""
    if options.write_baseline:
        baseline.write(options.write_baseline, found)
        _say(
            f"{counted(len(found), 'finding')} written to {options.write_baseline}: known from now "
            "on.",
            options,
        )
    elif known is not None and path:
        gone = known - found
        if options.prune_baseline and gone:
            baseline.write(path, known & found)
        _say(f"{counted(total.known, 'finding')} known from {path}.", options)
        if gone:
            done = "taken out" if options.prune_baseline else "--prune-baseline takes them out"
            _say(f"{counted(len(gone), 'entry')} of {path} found no more; {done}.", options)


def _say(text: str, options: argparse.Namespace) -> None:
    """Prints a line about the run, unless it is to be quiet."""
    if not options.quiet:
        print(text, file=sys.stderr)


def _say_left_out(plan: Plan, options: argparse.Namespace) -> None:
    line = plan.left_out.line("--show-settings lists them, ")
    if line:
        _say(line, options)


def _report(
    groups: list[Group],
    folders: Iterator[Chunk],
    plan: Plan,
    options: argparse.Namespace,
    known: frozenset[Key] | None,
    *,
    unit: str = "",
) -> tuple[Summary, int]:
    """Writes the findings. Returns what was counted, and the exit status."""
    found: set[Key] = set()
    whole: Iterator[Chunk]
    kinds = {group.kind for group in groups} or {plan.top["kind"]}
    total = Summary(unit_name=unit or (_UNITS[min(kinds)] if len(kinds) == 1 else "unit"))
    sources = [source for group in groups for source in group.sources]
    formats = options.format or [plan.top["format"]]
    places = wanted(formats, options.output)
    silent = options.statistics or options.write_baseline
    chunks = (
        run(group.checker, group.sources, group.kind, jobs=_jobs(options.jobs, group.sources))
        for group in groups
    )
    whole = iter(())
    if plan.top["data-set"]:
        from mypt_lint.dataset.compare import DataSet

        whole = DataSet(
            groups, eval_globs=plan.top["eval"] or (), prompts=plan.eval_prompts
        ).chunks()
    with (
        Silent()
        if silent
        else Outputs(places, [s.path for s in sources], show_all=options.show_all)
    ) as output:
        with Bar(sources, quiet=options.quiet) as bar:
            for chunk in chain(interleaved(chain.from_iterable(chunks), whole), folders):
                bar.at(chunk.position)
                total.add(chunk.summary)
                found |= (
                    chunk.keys if options.write_baseline or known is None else chunk.keys & known
                )
                for located in chunk.found:
                    output.finding(located)
                if chunk.summary.files:
                    bar.next()
        output.finish(total)
        if options.statistics:
            print("\n".join(map(Display(sys.stdout).line, statistics(total))))
        sys.stdout.flush()
    _baseline(options, plan.baseline, known, found, total)
    if total.by_code["MYP901"]:
        return total, FAILED
    if options.write_baseline:
        return total, CLEAN
    return total, FOUND if any(total.by_severity[s] for s in plan.top.counting) else CLEAN


def _jobs(asked: int, sources: list[Source]) -> int:
    if asked > 0:
        return asked
    size = sum(source.size or 0 for source in sources)
    return min(os.cpu_count() or 1, 8, max(1, size // _PARALLEL))
