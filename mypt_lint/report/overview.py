"""Judges a run as a whole: its exit status and why, what each file is, and what was not checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import Summary
from mypt_lint.report.totals import summary_line
from mypt_lint.settings.rates import Rates, spelled
from mypt_lint.settings.settings import Settings
from mypt_spec.findings import RULES

CLEAN, FINDINGS, FAILED, ABOVE_RATE = 0, 1, 2, 3  # exit statuses
_FAULT = "MYP901"  # of the linter itself


@dataclass(slots=True)
class FileFacts:
    """What a file is, and what was found in it."""

    name: str
    about: str
    units: int = 0
    faulty: int = 0
    findings: int = 0

    def add(self, part: Summary) -> None:
        self.units += part.units
        self.faulty += part.faulty
        self.findings += sum(part.by_severity.values())


@dataclass(slots=True)
class Overview:
    """The verdict of a run, the files in order, and checks that did not run, each with an option.

    `above` says of each rule by how much it exceeds its rate.
    """

    status: int = CLEAN
    above: list[str] = field(default_factory=list)
    files: list[FileFacts] = field(default_factory=list)
    unchecked: list[tuple[str, str]] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        return {CLEAN: "passed", FAILED: "internal error"}.get(self.status, "failed")

    @property
    def is_mixed(self) -> bool:
        """Returns whether the files are of more than one kind."""
        return len({file.about for file in self.files}) > 1


def judge(summary: Summary, counting: Sequence[str], rates: Rates) -> Overview:
    """Returns the verdict: severities that are `counting` fail, but rules with rates only by these.

    The exit status is ABOVE_RATE where nothing else fails.
    """
    limits = dict(rates)
    above = [
        f"{code} {RULES[code].name}: in {summary.units_by_code[code]:,} of {summary.units:,} "
        f"{summary.unit_name}s, {spelled(((code, share),))[code]}; --max-rate allows "
        f"{spelled(((code, limits[code]),))[code]}"
        for code in sorted(limits)
        if (share := summary.share(code)) > limits[code]
    ]
    failing = any(
        count and severity in counting and code not in limits
        for (code, severity), count in summary.graded.items()
    )
    status = FINDINGS if failing else ABOVE_RATE if above else CLEAN
    return Overview(FAILED if summary.by_code[_FAULT] else status, above)


def unchecked(checkers: Iterable[Checker], settings: Settings) -> list[tuple[str, str]]:
    """Returns what a run does not check of records, and the options that make it do so."""
    every = [*checkers]
    out = []
    if any(c.formatless and not c.by_model for c in every):
        out.append(("the format: its structure, token ids and loss mask", "--dialect or --model"))
    elif not any(c.by_model for c in every):
        out.append(("what the chat template of a model writes for each record", "--model"))
    if not any(c.limits.max_tokens or c.by_model for c in every):
        out.append(("records that are longer than the context", "--max-tokens or --model"))
    if any(c.dialect.table.phases and not c.formatless and not c.limits.phase for c in every):
        out.append(("what the curriculum introduces only later", "--phase"))
    if not settings["data-set"]:
        about = "duplicates, contradictions and overlap with evaluation data, over all files"
        out.append((about, "--data-set"))
    if not settings["eval-prompts"]:
        needs = "--eval-prompts" if settings["data-set"] else "--data-set --eval-prompts"
        out.append(("prompts that are reserved for evaluation", needs))
    return out if every else []


def verdict_line(summary: Summary, overview: Overview) -> str:
    """Returns the verdict in one line."""
    return f"{overview.verdict}: {summary_line(summary)}"
