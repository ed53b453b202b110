"""One unit of data (a line of JSONL, or a serialised text) to located findings. Pure: reads bytes, opens and prints nothing.

This is the definition of what the linter says; `fast.py` only proves lines clean more cheaply.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from mypt_spec.findings import RULES, Finding, Fix
from mypt_spec.frontdoor import Dialect
from mypt_spec.jsonvalue import CURES, Fault, loads
from mypt_spec.lint.baseline import Key
from mypt_spec.lint.cures import cured
from mypt_spec.lint.detect import error_count
from mypt_spec.lint.locate import Places
from mypt_spec.lint.located import Located, Snippet
from mypt_spec.lint.optout import OPT_OUT, opted_out
from mypt_spec.lint.rawedit import replacement
from mypt_spec.rules import Limits

KINDS = ("record", "text", "generation")
MAX_FINDINGS = 100  # of one line or text; what is beyond is counted, not shown
CONTEXT = 160  # code points of a line kept on either side of a finding, for the snippet
_decoded = json.JSONDecoder(strict=False).decode
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Checker:
    """What to check and what to report. `codes` are the selected rules; findings of other codes are left out.

    A faulty record that is legal in one of the `others` is in the wrong file.
    """

    dialect: Dialect
    limits: Limits = field(default_factory=Limits)
    codes: frozenset[str] = field(default_factory=lambda: frozenset(RULES))
    others: tuple[Dialect, ...] = ()
    most: int = MAX_FINDINGS  # of one line or text
    known: frozenset[Key] | None = None  # findings that are accepted; None: no keys are made
    severities: tuple[
        tuple[str, str], ...
    ] = ()  # of codes that are to have another than their rule's
    cures: bool = True  # look for fixes that need more than a finding by itself
    edits: bool = True  # say of fixes what they change in the line

    def line(self, raw: bytes, *, row: int, filename: str) -> list[Located]:
        """A line of JSONL without its line end; in order of place."""
        try:
            found = sorted(self._line(raw, row, filename), key=lambda item: item.sort_key)
        except Exception as error:  # promise 4: never an exception, whatever the line holds
            message = f"{type(error).__name__}: {error}; please report this with the line"
            found = [
                self._at(
                    Finding("MYP901", message), raw.decode("utf-8", "replace"), 0, 0, row, filename
                )
            ]
        return [
            item
            for item in found
            if item.finding.code in self.codes or item.finding.code == "MYP902"
        ]

    def generation_line(self, raw: bytes, *, row: int, filename: str) -> list[Located]:
        """A line {"prompt": "...", "completion": "..."}: what a model wrote, and what it wrote it after."""
        from mypt_spec.lint.texts import generation

        text = raw.decode("utf-8", "replace")
        try:
            record = loads(text)
        except Fault:
            return self.line(raw, row=row, filename=filename)
        shape = Finding(
            "MYP104",
            'expected {"prompt": "...", "completion": "..."}, both strings; the prompt may be left out',
        )
        if not isinstance(record, dict) or not isinstance(record.get("completion"), str):
            return [self._at(shape, text, 0, len(text), row, filename)]
        prompt = record.get("prompt", "")
        if not isinstance(prompt, str):
            return [self._at(shape, text, 0, len(text), row, filename)]
        findings = [
            replace(f, pointer=f.pointer or "/completion")
            for f in generation(self, record["completion"], prompt)
        ]
        return list(self._in_record(findings, text, row, filename))

    def _line(self, raw: bytes, row: int, filename: str) -> Iterator[Located]:
        text = raw.decode("utf-8", "replace")
        if row == 1 and raw.startswith(_BOM):
            cure = "save the file as UTF-8 without a byte order mark"
            finding = Finding(
                "MYP009",
                "the file begins with a byte order mark",
                help=cure,
                fix=_on_line("take it out", text, 0, 1),
            )
            yield self._at(finding, text, 0, 1, row, filename)
        if raw.endswith(b"\r"):
            cure = "end lines with LF alone"
            last = len(text) - 1
            finding = Finding(
                "MYP010",
                "the line ends in CR LF",
                help=cure,
                fix=_on_line("end it with LF", text, last, last + 1),
            )
            yield self._at(finding, text, last, last + 1, row, filename)
        body = text.removesuffix("\r")
        # The mark is one character of the physical line: put white space in its place, so that columns stay right.
        if row == 1 and raw.startswith(_BOM):
            body = " " + body[1:]
        if not body.strip():
            cure = "delete the line: every line holds one record"
            finding = Finding(
                "MYP011",
                "the line is empty",
                help=cure,
                fix=Fix("delete the line", True, edits=((0, len(text), ""),)),
            )
            yield self._at(finding, text, 0, len(text), row, filename)
            return
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError as error:
            start = len(raw[: error.start].decode("utf-8"))
            message = f"byte {error.start + 1} of the line (0x{raw[error.start]:02x}) is not UTF-8: {error.reason}"
            finding = Finding("MYP002", message, help="convert the file to UTF-8")
            yield self._at(finding, text, start, start + 1, row, filename)
            return
        try:
            record = loads(body)
        except Fault as fault:
            offset = min(fault.offset or 0, len(body))
            end = min(offset + 1, len(body)) if fault.offset is not None else len(body)
            yield self._at(
                Finding(fault.code, fault.message, help=CURES.get(fault.code, "")),
                body,
                offset,
                end,
                row,
                filename,
            )
            return
        yield from self._in_record(self.judged(record), body, row, filename)

    def judged(self, record: object) -> list[Finding]:
        """All findings about a record as `jsonvalue.loads` gives it, selected or not."""
        episode, findings = self.dialect.check(record, limits=self.limits)
        if self.others and any(f.severity == "error" for f in findings):
            other = next((d for d in self.others if not error_count(record, d)), None)
            if other is not None:
                message = f"this record is {other.name}, the file is {self.dialect.name}"
                findings = [
                    Finding(
                        "MYP014",
                        message,
                        help="one file, one dialect: move it, or convert it with mypt-convert",
                    )
                ]
        if self.cures:
            findings = cured(
                self.dialect,
                record,
                episode,
                findings,
                lambda other: self.dialect.check(other, limits=self.limits)[1],
            )
        if isinstance(record, dict) and OPT_OUT in record:
            return opted_out(record[OPT_OUT], findings, self.codes, complete=episode is not None)
        return findings

    def locate(
        self, findings: list[Finding], raw: bytes, *, row: int, filename: str, unique: bool = False
    ) -> list[Located]:
        """Selected findings about the record in a line, with their places in it. `unique`: no key stands twice in it."""
        body = raw.removesuffix(b"\r").decode("utf-8")
        line = " " + body[1:] if body.startswith("\ufeff") else body
        return list(self._in_record(findings, line, row, filename, unique=unique))

    def _in_record(
        self, findings: list[Finding], line: str, row: int, filename: str, *, unique: bool = False
    ) -> Iterator[Located]:
        wanted = self.shown(findings)
        places = Places(line if wanted else "", unique=unique)
        strings: dict[str, str] = {}
        for finding in wanted:
            start, end = places.locate(finding.pointer, finding.span, on_key=finding.on_key)
            snippet = None
            if finding.span is not None:
                if finding.pointer not in strings:
                    first, last = places.locate(finding.pointer)
                    if line.startswith('"', first):
                        strings[finding.pointer] = _decoded(line[first:last])
                if finding.pointer in strings:
                    snippet = excerpt(strings[finding.pointer], *finding.span)
            yield self._at(finding, line, start, end, row, filename, snippet)

    def shown(self, findings: list[Finding]) -> list[Finding]:
        """The selected findings of one line or text; a flood is cut, and the cut is a finding itself."""
        wanted = [f for f in findings if f.code in self.codes]
        rest = wanted[self.most :]
        if not rest:
            return wanted
        counts = ", ".join(
            f"{n} {code}" for code, n in sorted(Counter(f.code for f in rest).items())
        )
        cut = Finding(
            "MYP902",
            f"{len(rest)} more findings here are not shown: {counts}",
            help="repair what is shown, then lint again",
        )
        return [*wanted[: self.most], cut]

    def _at(
        self,
        finding: Finding,
        line: str,
        start: int,
        end: int,
        row: int,
        filename: str,
        snippet: Snippet | None = None,
    ) -> Located:
        shown = snippet or excerpt(line, start, end)
        edit = replacement(line, finding.fix) if finding.fix is not None and self.edits else None
        return Located(
            finding, filename, row, start + 1, row, end + 1, self.dialect.name, shown, edit
        )

    def text(self, text: str, findings: Iterable[Finding], *, filename: str) -> list[Located]:
        """Findings whose spans count code points of a whole text, located by row and column."""
        starts = [0]
        while (at := text.find("\n", starts[-1])) >= 0:
            starts.append(at + 1)
        out = []
        for finding in self.shown(list(findings)):
            a, b = finding.span or (0, 0)
            row, end_row = bisect_right(starts, a), bisect_right(starts, max(a, b - 1))
            end_column = b - starts[end_row - 1] + 1
            shown = excerpt(text, a, b)
            out.append(
                Located(
                    finding,
                    filename,
                    row,
                    a - starts[row - 1] + 1,
                    end_row,
                    end_column,
                    self.dialect.name,
                    shown,
                )
            )
        return sorted(out, key=lambda item: item.sort_key)


def _on_line(title: str, text: str, start: int, end: int) -> Fix | None:
    """A cut out of the physical line; none where its bytes are no text, so that places in it are a guess."""
    return None if "\ufffd" in text else Fix(title, True, edits=((start, end, ""),))


def excerpt(text: str, start: int, end: int) -> Snippet:
    """The part of a text around a span, at most `CONTEXT` code points on either side and as many inside."""
    first = max(0, start - CONTEXT)
    last = min(len(text), min(end, start + CONTEXT) + CONTEXT)
    return Snippet(
        text[first:last], (start - first, min(end, last) - first), first > 0, last < len(text)
    )
