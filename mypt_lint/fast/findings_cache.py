"""What `Checker.line` says of a line, recalled from a line of the same outline where there was one.

Mistakes come in series: a file has many lines and few ways to be wrong. One record of each outline
is put before the checker; what it says of the others is the same, with their own texts in it
(outline.py). Where a finding quotes a text in another form than its own, the line is read as it
stands. A property test holds the two together.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import msgspec

from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.check.suppress import OPT_OUT
from mypt_lint.fast.quotes import unescaped_quotes
from mypt_lint.fast.skeleton import SIGN, NoSkeletonError, Skeleton, Skeletons
from mypt_lint.fast.skeleton import Judge as _TextJudge
from mypt_spec.bodies.strict_json import value_at
from mypt_spec.findings import Finding, Fix

_LONG = 8 << 10  # bytes of an outline that is remembered ...
_FINDINGS = 20  # ... and its findings
_ROOM = 4 << 20  # bytes of all outlines, about; a finding counts as _WEIGHT
_WEIGHT = 1000


class Judge(_TextJudge, Protocol):
    """What `fast.Prover` knows."""

    checker: Checker
    longest: int  # bytes

    @property
    def alike(self) -> object:
        """Not None where the records are described by no SCHEMA."""
        ...


class Told(NamedTuple):
    """A finding about an outline. `before` and `marked`, of a span that must be counted anew: the
    text up to it, and its own.

    `moved`: its fix has texts in it.
    """

    finding: Finding
    before: str | None
    marked: str
    moved: bool


class FindingsCache:
    """The outlines that one checker has judged; belongs to one thread."""

    def __init__(self, judge: Judge) -> None:
        self.judge, self.checker = judge, judge.checker
        checker = judge.checker
        self.plain = replace(
            checker, limits=replace(checker.limits, max_tokens=None)
        )  # what is not outlined is short enough
        self.known: dict[bytes, tuple[Told, ...] | None] = {}
        self.size = 0
        self.outliner: Skeletons | None = None
        # A record that is judged by other dialects, by schemas or by the adapter itself shows more
        # than its outline.
        if not (checker.others or checker.limits.schemas or judge.alike):
            self.outliner = Skeletons(judge, checker.dialect.adapter.SCHEMA)
        self.decode = msgspec.json.Decoder().decode

    def line(self, raw: bytes, *, row: int, filename: str) -> list[Diagnostic]:
        """As `Checker.line`."""
        try:
            findings = self._recalled(raw)
        except Exception:  # the checker has its own words for what goes wrong
            findings = None
        if findings is None:
            return self.checker.line(raw, row=row, filename=filename)
        found = self.checker.locate(findings, raw, row=row, filename=filename, unique=True)
        return found if len(found) < 2 else sorted(found, key=lambda item: item.sort_key)

    def _recalled(self, raw: bytes) -> list[Finding] | None:
        """The findings about a record, where its outline tells them."""
        if (
            self.outliner is None
            or len(raw) > self.judge.longest
            or raw.endswith(b"\r")
            or b"\xee" in raw
            or b"\\ue" in raw
            or b"\\uE" in raw
        ):
            return None
        record = self.decode(raw)
        if record.__class__ is not dict or OPT_OUT in record:
            return None
        outline = self.outliner.outline(record)
        # A key that stands twice shows as quotes of strings that the decoded record does not have.
        if 2 * outline.strings != unescaped_quotes(raw):
            return None
        key = self.judge.encoder.encode(outline.record)
        if key not in self.known:
            if len(key) > _LONG:
                return None
            self._learn(key, outline)
        known = self.known[key]
        return None if known is None else [_retold(item, outline) for item in known]

    def _learn(self, key: bytes, outline: Skeleton) -> None:
        findings = self.plain.judged(outline.record)
        known: tuple[Told, ...] | None = None
        if len(findings) <= _FINDINGS:
            with suppress(NoSkeletonError):
                known = tuple([told(finding, outline) for finding in findings])
        self.size += len(key) + _WEIGHT * len(known or ())
        if self.size > _ROOM:
            self.known.clear()
            self.size = 0
        self.known[key] = known


def told(finding: Finding, outline: Skeleton) -> Told:
    """A finding as it is remembered.

    Raises NoOutlineError where it quotes a text, as a whole or in part.
    """
    fix = finding.fix
    words = [finding.message, finding.help, finding.pointer, *finding.expected]
    if fix is not None:
        words += [fix.title, *(operation["path"] for operation in fix.patch)]
    if any(map(SIGN.search, words)) or (fix is not None and fix.edits):
        raise NoSkeletonError("a finding quotes a text")
    before, marked = None, ""
    text = value_at(outline.record, finding.pointer) if finding.span is not None else None
    if finding.span is not None and isinstance(text, str):
        start, end = finding.span
        if not 0 <= start <= end <= len(text):
            raise NoSkeletonError("a span beyond its text")
        if SIGN.search(text[:end]):
            before, marked = text[:start], text[start:end]
    moved = False
    for operation in fix.patch if fix is not None else ():
        value = operation.get("value")
        moved = moved or outline.value(value) != value
    return Told(finding, before, marked, moved)


def _retold(told: Told, outline: Skeleton) -> Finding:
    """A finding about an outline, of the record that has it."""
    finding, fix = told.finding, told.finding.fix
    if told.before is None and not told.moved:
        return finding
    span = finding.span
    if told.before is not None:
        start = len(outline.text(told.before))
        span = start, start + len(outline.text(told.marked))
    if told.moved and fix is not None:
        patch: list[dict[str, Any]] = [
            op | {"value": outline.value(op["value"])} if "value" in op else op for op in fix.patch
        ]
        fix = Fix(fix.title, fix.safe, tuple(patch))
    return Finding(
        finding.code,
        finding.message,
        finding.pointer,
        span,
        finding.expected,
        finding.help,
        fix,
        finding.on_key,
    )
