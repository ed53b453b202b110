"""Checks one unit of data, a line of JSONL or a serialised text, and locates its findings.

The input is bytes; the output is diagnostics: findings with row, column and excerpt. The module
opens and prints nothing. It defines what the linter reports; `fast/` reports the same in less time.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from mypt_cli.jsonl.line import read_line
from mypt_cli.words import either
from mypt_lint.check.baseline import Key
from mypt_lint.check.detect import error_count
from mypt_lint.check.diagnostic import Diagnostic, Snippet
from mypt_lint.check.foreign import ReadInDialect, check_foreign
from mypt_lint.check.suppress import ALWAYS, hidden_causes, suppressed, untrainable
from mypt_lint.places.json_edit import replacement
from mypt_lint.places.positions import Places
from mypt_records.names import OPT_OUT
from mypt_spec.dialect import Dialect
from mypt_spec.episode import Episode
from mypt_spec.extra_keys import is_listed
from mypt_spec.findings import Finding, default_codes, regraded
from mypt_spec.rules import Limits

if TYPE_CHECKING:
    from mypt_records.chat import Chat

MAX_FINDINGS = 100  # of one line or text; more are counted, not shown
_decoded = json.JSONDecoder(strict=False).decode


@lru_cache(maxsize=16)
def convert_in(checker: Checker) -> ReadInDialect:
    """Returns what reads records of the checker's shape in its dialect, by converting them."""
    from mypt_convert.engine import Converter

    name, system = checker.dialect.spec, checker.system
    return Converter(checker.shape, name, system=system, judge=checker.native()).read


@dataclass(frozen=True, slots=True)
class Checker:
    """What to check and what to report.

    Only findings of the selected rules, `codes`, are reported. A faulty record that is legal in one
    of the `others` is reported as in the wrong file; with `misnamed`, the file as checked in the
    wrong dialect. `baseline` holds the keys of accepted findings; without it, no keys are computed.
    `severities` are pairs (code, severity) that differ from the rule's. `with_fixes` searches for
    fixes that a finding does not bring itself; `proposals` adds those that are proved only when
    they are applied; `edits` adds to each fix what it changes in the line. With a `shape`, the
    records are third-party ones. Unless `formatless`, these are also checked in the dialect, and
    `system` is the prompt of those that have none. Unknown top-level keys in `allowed` are not
    reported. `mask` is what rows for a trainer train (`mypt_spec.encoder.MASKS`). `by_model`
    finds what the template of a model makes of chats, in place of a dialect. Of `profiled` records,
    one is counted by what it holds (0: none).
    """

    dialect: Dialect
    limits: Limits = field(default_factory=Limits)
    codes: frozenset[str] = field(default_factory=default_codes)
    others: tuple[Dialect, ...] = ()
    misnamed: bool = False
    most: int = MAX_FINDINGS
    baseline: frozenset[Key] | None = None
    severities: tuple[tuple[str, str], ...] = ()
    with_fixes: bool = True
    proposals: bool = False
    edits: bool = True
    shape: str = ""
    formatless: bool = False
    system: str | None = None
    allowed: frozenset[str] = frozenset()
    mask: str = "model"
    by_model: ReadInDialect | None = None
    profiled: int = 0

    @property
    def name(self) -> str:
        """Returns the name of what the records are checked as."""
        return self.shape if self.formatless else self.dialect.name

    def native(self) -> Checker:
        """Returns the checker of the records that records of the shape are converted to."""
        return replace(self, shape="", others=(), with_fixes=False, baseline=None)

    def line(self, raw: bytes, *, row: int, filename: str) -> list[Diagnostic]:
        """Returns the findings of a line of JSONL without its line end, in order of place.

        Never raises: a fault of the linter itself is a finding (MYP901).
        """
        try:
            items = sorted(self._line(raw, row, filename), key=lambda item: item.sort_key)
        except Exception as error:  # invariant 4: never an exception, whatever the line holds
            message = f"{type(error).__name__}: {error}; please report this with the line"
            items = [
                self.at(
                    Finding("MYP901", message), raw.decode("utf-8", "replace"), 0, 0, row, filename
                )
            ]
        return [item for item in items if self.selects(item.finding.code)]

    def _line(self, raw: bytes, row: int, filename: str) -> Iterator[Diagnostic]:
        line = read_line(raw, first=row == 1)
        for spot in line.spots:
            yield self.at(*spot, row, filename)
        if line.fault is not None:
            yield self.at(self.insist(line.fault.finding), *line.fault[1:], row, filename)
        else:
            yield from self.in_record(self.record_findings(line.value), line.text, row, filename)

    def record_findings(self, record: object) -> list[Finding]:
        """Returns all findings about a record from `strict_json.loads`, selected or not."""
        return self.read(record)[1]

    def read(
        self, record: object, chat: Chat | None = None
    ) -> tuple[Episode | None, list[Finding]]:
        """Returns the Episode of a JSON value, if any, and all findings, selected or not.

        `chat` is what its shape reads in it, if that is known.
        If no reported finding is an error, the Episode has token ids (see suppress.py).
        """
        if self.shape:
            read_in_dialect = self.by_model or (None if self.formatless else convert_in(self))
            episode, findings = check_foreign(record, self.shape, read_in_dialect, chat)
        else:
            episode, findings = self.dialect.check(record, limits=self.limits)
        if self.allowed:
            findings = [f for f in findings if not is_listed(f, self.allowed)]
        reported = self._active(record, episode, findings)
        errors = [f for f in findings if f.severity == "error"]
        if self.others and self._errors(reported):
            legal = [d.name for d in self.others if not error_count(record, d)]
            elsewhere = [self._elsewhere(legal, errors, record)] if legal and errors else []
            if self._errors(elsewhere):
                return episode, elsewhere
        if self.with_fixes and errors and not self.shape:
            from mypt_lint.proposals.candidates import candidates_of

            findings = candidates_of(
                self.dialect,
                record,
                episode,
                findings,
                lambda value: self.dialect.check(value, limits=self.limits)[1],
                proposals=self.proposals,
            )
            reported = self._active(record, episode, findings)
        visible_errors = self._errors(reported)
        if self.formatless:
            return None, reported
        shown_ids = set(map(id, visible_errors))
        hidden = [f for f in findings if f.severity == "error" and id(f) not in shown_ids]
        return episode, [*reported, *hidden_causes(self.dialect, episode, hidden, visible_errors)]

    def _active(
        self, record: object, episode: Episode | None, findings: list[Finding]
    ) -> list[Finding]:
        """Returns the findings that a record does not opt out of, and those about its opt-outs."""
        if not isinstance(record, dict) or OPT_OUT not in record:
            return findings
        complete = episode is not None or self.formatless
        return suppressed(record[OPT_OUT], findings, self.codes, complete=complete)

    def _errors(self, findings: list[Finding]) -> list[Finding]:
        return [f for f in findings if self.severity(f) == "error" and self.selects(f.code)]

    def selects(self, code: str) -> bool:
        return code in self.codes or code in ALWAYS

    def severity(self, finding: Finding) -> str:
        """Returns the severity of a finding by the settings; a few codes always keep their own."""
        level = finding.severity
        return level if finding.code in ALWAYS else dict(self.severities).get(finding.code, level)

    def graded(self, finding: Finding) -> Finding:
        severity = self.severity(finding)
        return finding if severity == finding.severity else regraded(finding, severity)

    def insist(self, finding: Finding) -> Finding:
        """Returns the finding about a line without a record, or MYP906 where settings hide it."""
        hidden = finding.severity == "error" != self.severity(finding)
        return untrainable(finding) if hidden or not self.selects(finding.code) else finding

    def _elsewhere(self, legal: list[str], findings: list[Finding], record: object) -> Finding:
        """Returns the finding about a record that is legal in other dialects.

        `findings` are those in this dialect.
        """
        name, other = self.dialect.name, legal[0]
        if not self.misnamed:
            message = f"this record is {other}, the file is {name}"
            advice = "one file, one dialect: move it, or convert it with mypt-convert"
            return Finding("MYP014", message, help=advice)
        message = f"this record is {either(legal)}, as is the file; it is checked as {name}"
        errors = [f for f in findings if f.severity == "error"]
        first = next((f for f in errors if not (f.fix and f.fix.safe)), errors[0])
        as_chat = replace(self, shape="openai", others=(), baseline=None)
        reads = not as_chat._errors(as_chat.read(record)[1])
        advice = (
            f"{'read its chats with --records openai, ' * reads}"
            f"check the file with --dialect {other}, or make it {name} with "
            f"mypt-convert --from {other} --to {name}; as {name} it has {first.name} "
            f"({first.code})"
        )
        return Finding("MYP014", message, help=advice)

    def locate(
        self, findings: list[Finding], raw: bytes, *, row: int, filename: str, unique: bool = False
    ) -> list[Diagnostic]:
        """Returns the selected findings about the record in a line, in order of place.

        `unique`: it is known that no key occurs twice in the line.
        """
        body = raw.removesuffix(b"\r").decode("utf-8")
        line = " " + body[1:] if body.startswith("\ufeff") else body
        items = self.in_record(findings, line, row, filename, unique=unique)
        return sorted(items, key=lambda item: item.sort_key)

    def in_record(
        self, findings: list[Finding], line: str, row: int, filename: str, *, unique: bool = False
    ) -> Iterator[Diagnostic]:
        """Yields the selected findings about the record in a line, which is text, as `locate`."""
        reported = self.selected_findings(findings)
        places = Places(line if reported else "", unique=unique)
        strings: dict[str, str] = {}
        for finding in reported:
            start, end = places.locate(finding.pointer, finding.span, on_key=finding.on_key)
            snippet = None
            if finding.span is not None:
                if finding.pointer not in strings:
                    first, last = places.locate(finding.pointer)
                    if line.startswith('"', first):
                        strings[finding.pointer] = _decoded(line[first:last])
                if finding.pointer in strings:
                    snippet = Snippet.around(strings[finding.pointer], *finding.span)
            yield self.at(finding, line, start, end, row, filename, snippet)

    def selected_findings(self, findings: list[Finding]) -> list[Finding]:
        """Returns the selected findings of one line or text.

        Of very many, the rest is cut, and the cut is a finding itself (MYP902).
        """
        selected = [self.graded(f) for f in findings if self.selects(f.code)]
        hidden = selected[self.most :]
        if not hidden:
            return selected
        counts = ", ".join(
            f"{n} {code}" for code, n in sorted(Counter(f.code for f in hidden).items())
        )
        summary = Finding(
            "MYP902",
            f"{len(hidden)} more findings here are not shown: {counts}",
            help="repair what is shown, then lint again",
        )
        return [*selected[: self.most], summary]

    def at(
        self,
        finding: Finding,
        line: str,
        start: int,
        end: int,
        row: int,
        filename: str,
        snippet: Snippet | None = None,
    ) -> Diagnostic:
        """Returns a finding with its place, `line[start:end]`, whether it is selected or not.

        `snippet` is shown under it in place of the line.
        """
        excerpt = snippet or Snippet.around(line, start, end)
        edit = replacement(line, finding.fix) if finding.fix is not None and self.edits else None
        return Diagnostic(
            self.graded(finding), filename, row, start + 1, row, end + 1, self.name, excerpt, edit
        )

    def text(self, text: str, findings: Iterable[Finding], *, filename: str) -> list[Diagnostic]:
        """Returns findings about a whole text with rows and columns.

        Their spans count its code points.
        """
        starts = [0]
        while (at := text.find("\n", starts[-1])) >= 0:
            starts.append(at + 1)
        out = []
        for finding in self.selected_findings(list(findings)):
            a, b = finding.span or (0, 0)
            row, end_row = bisect_right(starts, a), bisect_right(starts, max(a, b - 1))
            places = row, a - starts[row - 1] + 1, end_row, b - starts[end_row - 1] + 1
            excerpt = Snippet.around(text, a, b)
            out.append(Diagnostic(finding, filename, *places, self.dialect.name, excerpt))
        return sorted(out, key=lambda item: item.sort_key)
