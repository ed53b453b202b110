"""Runs the linter once: options in, output out, exit status back.

The parts in order: settings and files (run/plan), fixes (fix/files), the pass over the lines
(run/runner) and over the data set (dataset/compare), reports (report/outputs), the baseline.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from mypt_cli.errors import UsageError
from mypt_cli.jsonl.blocks import Source
from mypt_cli.jsonl.names import is_prepared
from mypt_cli.progress import Bar
from mypt_cli.run import saying
from mypt_cli.terminal import Display
from mypt_cli.words import counted
from mypt_lint.check import baseline
from mypt_lint.check.baseline import Key
from mypt_lint.check.diagnostic import Summary
from mypt_lint.report.outputs import Outputs, outputs_of, shows_data
from mypt_lint.report.overview import CLEAN, FAILED, FINDINGS, file_lines, judge, unchecked
from mypt_lint.report.totals import dropped_line, fixable_line, fixed_line, statistics, summary_line
from mypt_lint.run.chunk import Chunk, interleaved
from mypt_lint.run.plan import Plan, named_dialect, planned
from mypt_lint.settings.options import template_options
from mypt_lint.settings.rates import KEY as MAX_RATE
from mypt_lint.settings.rates import write_rates
from mypt_lint.settings.selection import selection
from mypt_records.names import AUTO

if TYPE_CHECKING:
    from mypt_lint.fix.dataset import Repairs
    from mypt_lint.fix.files import Fixes
    from mypt_lint.report.overview import Overview
    from mypt_lint.run.resolve import Group

_UNITS = {"record": "line", "text": "episode", "generation": "generation", "rows": "row"}
_PARALLEL = 16 << 20  # bytes of data for each process: fewer do not repay its start
_SAMPLE = 8 << 20  # bytes of records, about, that are read for a summary of what they hold
_PACKED = 4  # times as many bytes as a compressed file has, about
_PAUSE = 0.3  # seconds between two looks at the files that are watched


def lint(options: argparse.Namespace) -> int:
    """Lints what the options name, and returns the exit status. Raises UsageError."""
    if options.template:  # a shell writes out --template *.jinja as the option and other files
        others = [path for path in options.paths if path.lower().endswith((".jinja", ".jinja2"))]
        options.template += others
        options.paths = [path for path in options.paths if path not in others]
    plan = _plan(options)
    if options.show_settings:
        status = _show_settings(plan, options.paths)
    elif not options.paths and not options.template:
        raise UsageError(
            "nothing to check; name files or folders, or - for standard input (see mypt-lint "
            "--help)"
        )
    else:
        status = _Session(options, plan, known_keys(options, plan)).run()
        status = CLEAN if options.exit_zero and status != FAILED else status
    for reason in plan.left_out.unreadable or ():
        print(f"mypt-lint: error: {reason}", file=sys.stderr)
    return FAILED if plan.left_out.unreadable else status


def watched(options: argparse.Namespace) -> NoReturn:
    """Lints again after each change. Raises UsageError for what cannot be watched."""
    if _fixes(options) or options.write_baseline or "-" in options.paths:
        raise UsageError("--watch cannot be used with fixes, --write-baseline or standard input")
    if url := next((path for path in options.paths if "://" in path), None):
        raise UsageError(f"{url}: --watch needs local files, and cannot watch a store")
    plan = _plan(options)
    prepared = [path for path in options.paths if is_prepared(path)]
    others = [path for path in options.paths if path not in prepared]

    def state() -> dict[str, tuple[int, int]]:
        """Returns when each file was last written, and its size."""
        out = {}
        try:
            sources = [source.path for source in plan.sources(others)]
            for path in filter(None, [plan.config.path, *prepared, *sources]):
                status = os.stat(path)
                out[path] = status.st_mtime_ns, status.st_size
        except (OSError, UsageError):  # a file that is being replaced, for one
            pass
        return out

    while True:
        before = state()
        if sys.stdout.isatty():
            sys.stdout.write("\x1b[2J\x1b[H")
        try:
            lint(options)
        except UsageError as error:
            print(f"mypt-lint: error: {error}", file=sys.stderr)
        sys.stdout.flush()
        print("watching for changes; stop with Ctrl-C", file=sys.stderr, flush=True)
        while state() == before:
            time.sleep(_PAUSE)


def _fixes(options: argparse.Namespace) -> bool:
    return bool(options.fix or options.fix_only or options.diff)


def _plan(options: argparse.Namespace) -> Plan:
    plan = planned(options)
    chosen_options = template_options(options)
    if options.model:
        from mypt_cli.store.gguf import lacking
        from mypt_lint.derive.of_model import report_family
        from mypt_lint.template.clean_chats import ByModel
        from mypt_lint.template.model import ModelFolder

        if options.dialect not in (None, AUTO):
            raise UsageError("--model and --dialect both name a format; remove one")
        model = ModelFolder(options.model, chosen_options)
        say = saying("mypt-lint", quiet=options.quiet)
        model.report(say)
        if not options.quiet:
            report_family(model, say)
        if options.model.lower().endswith(".gguf") and os.path.isfile(options.model):
            say(f"{options.model}: lengths are not checked; its vocabulary needs {lacking()}")
        if limit := plan.top["max-tokens"]:
            model.context_length = min(limit, model.context_length or limit)
        plan.by_model = ByModel(model)
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


def known_keys(options: argparse.Namespace, plan: Plan) -> frozenset[Key] | None:
    """Returns the keys that the baseline knows; None without a baseline. Raises UsageError."""
    if options.write_baseline:
        if options.baseline or _fixes(options):
            raise UsageError("--write-baseline cannot be combined with --baseline or fixes")
        path = None
    else:
        path = plan.baseline
        if options.prune_baseline and not path:
            raise UsageError("--prune-baseline needs --baseline FILE")
        if not path:
            return None
    if plan.top["kind"] != "record":
        raise UsageError("a baseline needs --kind record")
    return baseline.read(path) if path else frozenset()


class _Session(NamedTuple):
    """One run: its options, its plan, and the keys that the baseline knows."""

    options: argparse.Namespace
    plan: Plan
    baseline_keys: frozenset[Key] | None

    def run(self) -> int:
        """Fixes or reports, and says what was done. Returns the exit status."""
        options, plan = self.options, self.plan
        prepared = sorted({path for path in options.paths if is_prepared(path)})
        sources = plan.sources([path for path in options.paths if path not in prepared])
        groups: list[Group] = []
        if sources:
            from mypt_lint.run.resolve import group_sources  # templates need none of it

            groups = group_sources(plan, sources, baseline=self.baseline_keys, say=self.say)
        if _fixes(options):
            status = self.fix(groups, prepared)
            self.say(plan.left_out.line("--show-settings lists them, "))
            return status
        for name in ("unsafe-fixes", "drop-invalid"):
            if getattr(options, name.replace("-", "_")):
                raise UsageError(f"--{name} needs --fix, --fix-only or --diff")
        codes = selection(plan.top["select"], plan.top["ignore"])
        chunks = chain(_prepared(prepared, codes), self._templates(codes))
        unit = "episode" if prepared else "conversation" if not options.paths else ""
        total, overview = self.report(groups, chunks, output=options.output, unit=unit)
        for line in file_lines(overview.files):
            self.say(Display(sys.stderr).line(line))
        self.say(summary_line(total))
        self.say(plan.left_out.line("--show-settings lists them, "))
        if total.fixable and not options.write_baseline:
            self.say(fixable_line(total))
        return self.status(total, overview)

    def _templates(self, codes: frozenset[str], fixes: Fixes | None = None) -> Iterator[Chunk]:
        """Yields the findings about templates, which are fixed before if there are `fixes`."""
        options, top, fix = self.options, self.plan.top, None
        unnamed = top.origin("dialect") == "default" or top["dialect"] == AUTO
        if paths := options.template:
            from mypt_lint.template.lint import lint_templates

            if fixes:
                from mypt_lint.fix.templates import fix_template

                diff = sys.stdout.buffer.write if options.diff else None
                fix = partial(fix_template, fixes, codes, diff, options.quiet)
            dialect = None if unnamed else named_dialect(top["dialect"])
            yield from lint_templates(paths, dialect, codes, dict(top["severity"] or ()), fix)

    def say(self, text: str) -> None:
        """Prints a line about the run, if there is one, unless it is to be quiet."""
        if text and not self.options.quiet:
            print(Display(sys.stderr).line(text, keep="\n"), file=sys.stderr)

    def status(self, total: Summary, overview: Overview) -> int:
        """Says which rates are exceeded, and writes those of the run if wanted."""
        if self.options.write_rates:
            inputs = [name for name, *_ in overview.files]
            write_rates(self.options.write_rates, total.rates, inputs)
        if self.options.write_baseline and overview.status != FAILED:
            return CLEAN
        for line in overview.above:
            self.say(line)
        return overview.status

    def fix(self, groups: list[Group], prepared: list[str]) -> int:
        """Fixes and reports what is left, or shows what a fix would change. Returns the status."""
        from mypt_lint.fix.files import fix_sources

        options, plan = self.options, self.plan
        repairs = self._repairs(groups, prepared)
        on_screen = (options.diff or options.output == "-") and sys.stdout.isatty()
        sources, diff = _sources(groups), sys.stdout.buffer.write if options.diff else None
        with Bar(sources, quiet=options.quiet or on_screen) as bar:
            groups, fixes = fix_sources(
                groups, unsafe=options.unsafe_fixes, output=options.output, diff=diff,
                repairs=repairs, drop=plan.top.counting if options.drop_invalid else (), bar=bar,
            )  # fmt: skip
        left = [*self._templates(selection(plan.top["select"], plan.top["ignore"]), fixes)]
        for reason in fixes.refused:
            self.say(reason)
        self.say(dropped_line(fixes.dropped, fixes.rejects))
        files = len(fixes.files)
        if options.diff or options.fix_only:
            self.say(fixed_line(fixes.by_code.total(), None, would=options.diff, files=files))
            return FINDINGS if options.diff and fixes.files else CLEAN
        unit = "" if options.paths else "conversation"
        total, overview = self.report(groups, left, output=None, unit=unit)
        self.say(summary_line(total))
        count, remaining = fixes.by_code.total(), total.by_severity.total()
        self.say(fixed_line(count, remaining, would=False, files=files))
        return self.status(total, overview)

    def _repairs(self, groups: list[Group], prepared: list[str]) -> Repairs | None:
        """Returns the fixes that only the whole data shows, if wanted. Raises UsageError."""
        options = self.options
        if prepared:
            raise UsageError(
                f"{prepared[0]} is a prepared data set, which is not fixed; fix its source and "
                "prepare it again"
            )
        if options.output == "-" and not options.fix_only:
            raise UsageError(
                "-o - writes the fixed data to standard output, where the findings go; add "
                "--fix-only, or name a file"
            )
        if options.diff and options.output:
            raise UsageError("--diff writes nothing; remove -o")
        if options.drop_invalid and options.output == "-":
            raise UsageError("--drop-invalid writes the dropped lines beside the data; name a file")
        if options.drop_invalid and any(group.kind == "text" for group in groups):
            raise UsageError("--drop-invalid drops records; it needs --kind record")
        by_set = self.plan.top["data-set"] and options.unsafe_fixes
        if not (by_set or options.drop_invalid):
            return None
        if any(source.streamed for source in _sources(groups)):
            raise UsageError(
                "for --drop-invalid, and for the fixes of --data-set, data is read twice, so it "
                "must be a file"
            )
        if not by_set:
            return None
        from mypt_lint.fix.dataset import Repairs

        return Repairs(groups)

    def report(
        self, groups: list[Group], folders: Iterable[Chunk], *, output: str | None, unit: str = ""
    ) -> tuple[Summary, Overview]:
        """Checks all groups, writes the findings, and updates the baseline. Returns the counts.

        `folders` are the findings about prepared data sets, `unit` is what those hold.
        """
        options = self.options
        kinds = {group.kind for group in groups} or {self.plan.top["kind"]}
        total = Summary(unit_name=unit or (_UNITS[min(kinds)] if len(kinds) == 1 else "unit"))
        sources = _sources(groups)
        keys: set[Key] = set()
        accepted = self.baseline_keys or frozenset()
        wants_all = options.write_baseline or self.baseline_keys is None
        places = outputs_of(options.format or [self.plan.top["format"]], output)
        if options.statistics or options.write_baseline:  # findings are only counted
            places = []
        if shows_data(places):
            size = sum((s.size or 0) * (_PACKED if s.compressed else 1) for s in sources)
            every = max(1, size // _SAMPLE)
            groups = [g._replace(checker=replace(g.checker, profiled=every)) for g in groups]
        files = [
            (s.path, g.about, Summary(unit_name=total.unit_name)) for g in groups for s in g.sources
        ]
        at = 0
        paths = [source.path for source in sources]
        outputs = Outputs(places, paths, show_all=options.show_all)
        with self._status_if_closed(total), outputs as out:
            with Bar(sources, quiet=options.quiet) as bar:
                for chunk in chain(self._checked(groups), folders):
                    bar.at(chunk.position)
                    total.add(chunk.summary)
                    if at < len(files):
                        chunk.summary.profile = None  # it is of all files
                        files[at][2].add(chunk.summary)
                        at += chunk.summary.files
                    keys |= chunk.keys if wants_all else chunk.keys & accepted
                    for item in chunk.findings:
                        out.finding(item)
                    if chunk.summary.files:
                        bar.next()
            top = self.plan.top
            overview = judge(total, top.counting, top[MAX_RATE] or ())
            overview.files = [
                (path, about if counts.units or not counts.by_severity else "not read", counts)
                for path, about, counts in files
            ]
            overview.unchecked = unchecked((g.checker for g in groups if g.kind == "record"), top)
            out.finish(total, overview)
            if options.statistics:
                print("\n".join(map(Display(sys.stdout).line, statistics(total))))
            sys.stdout.flush()
        self._baseline(keys, total)
        return total, overview

    @contextmanager
    def _status_if_closed(self, total: Summary) -> Iterator[None]:
        """Gives the run the status of what was found until the reader of the output had gone."""
        try:
            yield
        except BrokenPipeError as error:
            top = self.plan.top
            fail = ((), ()) if self.options.exit_zero else (top.counting, top[MAX_RATE] or ())
            raise BrokenPipeError(judge(total, *fail).status) from error

    def _checked(self, groups: list[Group]) -> Iterator[Chunk]:
        """Yields the findings of all lines, and of the whole data set where these are wanted."""

        def lines() -> Iterator[Chunk]:
            for group in groups:
                from mypt_lint.run.parallel import check_sources  # templates need none of it

                jobs = _jobs(self.options.jobs, group)
                yield from check_sources(group.checker, group.sources, group.kind, jobs=jobs)

        data_set: Iterator[Chunk] = iter(())
        if self.plan.top["data-set"]:
            from mypt_lint.dataset.compare import compared

            data_set = compared(self.plan, groups)
        return interleaved(lines(), data_set)

    def _baseline(self, keys: set[Key], total: Summary) -> None:
        options, path = self.options, self.plan.baseline
        if options.write_baseline:
            baseline.write(options.write_baseline, keys)
            self.say(f"Findings written to {options.write_baseline}; later runs ignore them.")
        elif self.baseline_keys is not None and path:
            stale_keys = self.baseline_keys - keys
            if options.prune_baseline and stale_keys:
                baseline.write(path, self.baseline_keys & keys)
            self.say(f"{counted(total.in_baseline, 'finding')} known from {path}.")
            if stale_keys:
                done = "removed" if options.prune_baseline else "--prune-baseline removes them"
                self.say(f"{counted(len(stale_keys), 'entry')} of {path} no longer found; {done}.")


def _sources(groups: Iterable[Group]) -> list[Source]:
    return [source for group in groups for source in group.sources]


def _prepared(folders: list[str], codes: frozenset[str]) -> Iterator[Chunk]:
    if folders:
        from mypt_train.data.verify import check_folder

        for folder in folders:
            yield from check_folder(folder, codes)


def _jobs(jobs: int, group: Group) -> int:
    if any(source.remote for source in group.sources):
        return 1  # a forked process cannot use a store, and each would read all of it
    if jobs > 0:
        return jobs
    size = sum(source.size or 0 for source in group.sources)
    return min(os.cpu_count() or 1, 8, max(1, size // _PARALLEL))
