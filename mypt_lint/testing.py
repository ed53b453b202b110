"""Lints data in tests: `assert_clean` fails with the text that the command prints.

from mypt_lint.testing import assert_clean

def test_the_training_data():
    assert_clean("data/", dialect="qwen3")
"""

import io
import os
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from mypt_cli.errors import UsageError
from mypt_lint.check.baseline import read
from mypt_lint.check.diagnostic import Summary
from mypt_lint.report.outputs import FirstOfEach
from mypt_lint.report.overview import CLEAN, judge
from mypt_lint.report.totals import summary_line
from mypt_lint.run.chunk import Chunk, interleaved
from mypt_lint.run.parallel import check_sources
from mypt_lint.run.plan import planned
from mypt_lint.run.resolve import group_sources
from mypt_lint.settings.rates import KEY as MAX_RATE
from mypt_records.names import AUTO, NAMES, NATIVE
from mypt_spec.findings import SEVERITIES


def assert_clean(
    *paths: str | os.PathLike[str],
    dialect: str | None = None,
    model: str | os.PathLike[str] | None = None,
    records: str | None = None,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    fail_on: str | None = None,
    max_rate: Mapping[str, str] | None = None,
    config: str | os.PathLike[str] | None = None,
) -> Summary:
    """Asserts that `mypt-lint PATH ...` would exit with 0, and returns the counts of the run.

    Arguments are as the options of these names; `max_rate` is as `{"MYP353": "0.5%"}`. Raises
    AssertionError with the findings, and UsageError for what cannot be read.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    select, ignore = ([w] if isinstance(w, str) else [*w] for w in (select, ignore))
    options = Namespace(
        dialect=dialect, records=records, select=select or None, ignore=ignore,
        fail_on=fail_on, max_rate=[f"{rule}={rate}" for rule, rate in (max_rate or {}).items()],
        no_config=False, config=os.fspath(config) if config else None,
    )  # fmt: skip
    for name, choices in (("records", (AUTO, NATIVE, *NAMES)), ("fail_on", SEVERITIES)):
        if getattr(options, name) not in (None, *choices):
            raise UsageError(f"{name}: {getattr(options, name)!r} is none of {', '.join(choices)}")
    plan = planned(options)
    if model is not None:
        from mypt_lint.template.clean_chats import ByModel
        from mypt_lint.template.model import ModelFolder

        plan.by_model = ByModel(ModelFolder(os.fspath(model)))
    notes: list[str] = []
    sources = plan.sources([os.fspath(path) for path in paths])
    if plan.left_out.unreadable:
        raise UsageError("\n".join(plan.left_out.unreadable))
    known = read(plan.baseline) if plan.baseline else None
    groups = group_sources(plan, sources, baseline=known, say=notes.append)
    chunks: Iterator[Chunk] = chain.from_iterable(
        check_sources(g.checker, g.sources, g.kind) for g in groups
    )
    if plan.top["data-set"]:
        from mypt_lint.dataset.compare import compared

        chunks = interleaved(chunks, compared(plan, groups))
    total, out = Summary(), io.StringIO()
    report = FirstOfEach(out)
    for chunk in chunks:
        total.add(chunk.summary)
        for item in chunk.findings:
            report.finding(item)
    report.finish(total)
    overview = judge(total, plan.top.counting, plan.top[MAX_RATE] or ())
    if overview.status != CLEAN or not total.units:
        head = f"{overview.verdict}: " * (total.units > 0) + summary_line(total)
        lines = [head, *overview.above, *notes, "", out.getvalue()]
        raise AssertionError("\n".join(lines).rstrip())
    return total
