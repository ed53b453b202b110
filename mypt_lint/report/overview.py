"""Judges a run as a whole: its exit status and why, what each file is, and what was not checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mypt_cli.words import counted
from mypt_lint.check.diagnostic import Summary
from mypt_lint.settings.rates import Rates, spelled
from mypt_lint.settings.settings import Settings
from mypt_spec.findings import RULES

if TYPE_CHECKING:
    from mypt_lint.check.checker import Checker

CLEAN, FINDINGS, FAILED, ABOVE_RATE = 0, 1, 2, 3  # exit statuses
_VERDICTS = {CLEAN: "passed", FINDINGS: "failed", FAILED: "internal error", ABOVE_RATE: "failed"}
_LISTED = 20  # files
_FAULT = "MYP901"  # of the linter itself


@dataclass(slots=True)
class Overview:
    """The verdict of a run, and checks that did not run, each with an option.

    `above` says of each rule by how much it exceeds its rate. `files` are in order: their names,
    what they hold, and their counts.
    """

    status: int
    verdict: str
    above: list[str]
    files: list[tuple[str, str, Summary]] = field(default_factory=list)
    unchecked: list[tuple[str, str]] = field(default_factory=list)


def judge(summary: Summary, counting: Sequence[str], rates: Rates) -> Overview:
    """Returns the verdict: severities that are `counting` fail, but rules with rates only by these.

    The exit status is ABOVE_RATE where nothing else fails.
    """
    limits, shares = dict(rates), dict(summary.rates)
    above = [
        f"{code} {RULES[code].name}: in {summary.units_by_code[code]:,} of {summary.units:,} "
        f"{summary.unit_name}s, {spelled(shares[code])}; --max-rate allows {spelled(limits[code])}"
        for code in sorted(limits.keys() & shares.keys())
        if shares[code] > limits[code]
    ]
    failing = any(s in counting and code not in limits for code, s in summary.graded)
    status = FINDINGS if failing else ABOVE_RATE if above else CLEAN
    status = FAILED if summary.by_code[_FAULT] else status
    return Overview(status, _VERDICTS[status], above)


def unchecked(checkers: Iterable[Checker], settings: Settings) -> list[tuple[str, str]]:
    """Returns what a run does not check of records, and the options that make it do so."""
    every = [*checkers]
    by_model = any(c.by_model for c in every)
    bare = any(c.formatless for c in every) and not by_model
    sized = by_model or any(c.limits.max_tokens and not c.formatless for c in every)
    phased = any(c.dialect.table.phases and not (c.formatless or c.limits.phase) for c in every)
    compared = bool(settings["data-set"])
    rows = (
        (bare, "the format: its structure, token ids and loss mask", "--dialect or --model"),
        (not (bare or by_model), "what the chat template of a model writes", "--model"),
        (not sized, "records that are longer than the context",
         "--model, or --dialect and --max-tokens"),
        (phased, "what the curriculum introduces only later", "--phase"),
        (not compared, "duplicates, contradictions, overlap with evaluation data", "--data-set"),
        (not settings["eval-prompts"], "prompts that are reserved for evaluation",
         "--data-set --eval-prompts"),
    )  # fmt: skip
    return [(what, option) for missing, what, option in rows if missing and every]


def file_lines(files: Sequence[tuple[str, str, Summary]]) -> list[str]:
    """Returns what each file is and whether it is clean, in aligned columns, the faulty ones first.

    None where all are of one kind, which the run has said already.
    """
    listed = sorted(files, key=lambda f: (-f[2].faulty, f[2].clean > 0, f[0]))[:_LISTED]
    wide = [max(map(len, column)) for column in list(zip(*listed, strict=True))[:2]]
    out = [f"{n:<{wide[0]}}  {about:<{wide[1]}}  {_counts(c)}" for n, about, c in listed]
    out += [f"... and {len(files) - _LISTED} more files"] * (len(files) > _LISTED)
    return out if len({about for _, about, _ in files}) > 1 else []


def _counts(counts: Summary) -> str:
    if not counts.units and counts.by_severity:
        return counted(counts.by_severity.total(), "finding")
    state = f"{counts.faulty} faulty" if counts.faulty else "clean"
    return f"{counted(counts.units, counts.unit_name)}, {state}"
