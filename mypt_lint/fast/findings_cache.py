"""Caches findings by skeleton: lines that differ only in clean texts share them.

Input: a line of a third-party record that is not proved clean. Output: what `Checker.line` finds in
it; `tests/property/test_fast_chats.py` holds the two together. Mistakes come in series: a file has
many lines and few ways to be wrong. Of each skeleton (chats.py), only the rest is put before the
checker. What the checker finds in it is true of every record with this rest. A finding inside a
text, or whose message quotes one, is not cached; the line is checked as it is.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.fast.chats import ChatSkeletons
from mypt_lint.fast.clean_texts import told_apart
from mypt_lint.fast.skeleton import PLACEHOLDER, NoSkeletonError, Skeleton
from mypt_records.names import OPT_OUT
from mypt_spec.adapters.message_splitter import unescaped_quotes
from mypt_spec.extra_keys import METADATA
from mypt_spec.findings import Finding, Fix
from mypt_spec.memo import Memo

_LONG = 8 << 10  # bytes of a rest that is remembered ...
_FINDINGS = 20  # ... and its findings
_ROOM = 4 << 20  # bytes of all rests, about; a finding counts as _WEIGHT
_WEIGHT = 1000
# Neither what is found nor its fix depends on the values in a record of another tool.
_STRUCTURAL = frozenset({METADATA, "MYP125", "MYP134", "MYP137", "MYP214", "MYP252"})


class CachedFinding(NamedTuple):
    """A finding about a rest; `moved`: its fix has texts in it."""

    finding: Finding
    moved: bool


class Judged(NamedTuple):
    """A skeleton, its bytes, and its findings; None where these depend on the texts."""

    skeleton: Skeleton
    key: bytes
    findings: tuple[CachedFinding, ...] | None


class FindingsCache:
    """The skeletons that one checker of third-party records has judged; belongs to one thread."""

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        # What has a skeleton is short enough.
        self.plain = replace(checker, limits=replace(checker.limits, max_tokens=None))
        # None: the line must be checked as it is.
        self.memo = Memo[bytes, tuple[CachedFinding, ...] | None](sys.maxsize, room=_ROOM)
        self.skeletons = ChatSkeletons(checker)
        self.is_apart = told_apart(checker.dialect.tokenizer.lacks)
        self.decode = msgspec.json.Decoder().decode
        self.encode = msgspec.json.Encoder().encode

    def line(self, raw: bytes, *, row: int, filename: str) -> list[Diagnostic]:
        """Returns what is found in a line."""
        try:
            findings = self._findings(raw)
        except Exception:  # the checker has its own words for what goes wrong
            findings = None
        if findings is None:
            return self.checker.line(raw, row=row, filename=filename)
        return self.checker.locate(findings, raw, row=row, filename=filename, unique=True)

    def _findings(self, raw: bytes) -> list[Finding] | None:
        """Returns the findings about a record, None where its skeleton does not tell them."""
        judged = self.judged(raw)
        if judged is None or judged.findings is None:
            return None
        return [restored(item, judged.skeleton) for item in judged.findings]

    def judged(self, raw: bytes) -> Judged | None:
        """Returns the skeleton of a record and its findings, None for a record without.

        Raises what goes wrong when the line is decoded, and NoSkeletonError.
        """
        if len(raw) > self.skeletons.longest or raw.endswith(b"\r") or self.is_apart(raw):
            return None
        if b"\xee" in raw or b"\\ue" in raw or b"\\uE" in raw:  # perhaps a placeholder
            return None
        record = self.decode(raw)
        if record.__class__ is not dict or OPT_OUT in record:
            return None
        skeleton = self.skeletons.of(record)
        # A key that occurs twice shows as quotes of strings that the decoded record does not have.
        if 2 * skeleton.strings != unescaped_quotes(raw):
            return None
        key = self.encode(skeleton.rest)
        if key in self.memo.entries:
            return Judged(skeleton, key, self.memo.entries[key])
        return None if len(key) > _LONG else Judged(skeleton, key, self._learn(key, skeleton))

    def _learn(self, key: bytes, skeleton: Skeleton) -> tuple[CachedFinding, ...] | None:
        """Checks a rest and remembers its findings."""
        rest = skeleton.rest
        if skeleton.values:
            rest = replace(skeleton, texts={}).value(rest)
        findings = self.plain.record_findings(rest)
        entry: tuple[CachedFinding, ...] | None = None
        if len(findings) <= _FINDINGS:
            with suppress(NoSkeletonError):
                entry = tuple([cached(finding, skeleton) for finding in findings])
        return self.memo.keep(key, entry, len(key) + _WEIGHT * len(entry or ()))


def cached(finding: Finding, skeleton: Skeleton) -> CachedFinding:
    """Returns a finding about a rest as it is remembered.

    Raises NoSkeletonError where it quotes a text, as a whole or in part.
    """
    fix = finding.fix
    words = [finding.message, finding.help, finding.pointer, *finding.expected]
    if fix is not None:
        words += [fix.title, *(operation["path"] for operation in fix.patch)]
    if any(map(PLACEHOLDER.search, words)) or (fix is not None and fix.edits):
        raise NoSkeletonError("a finding quotes a text")
    if finding.span is not None or (
        finding.code not in _STRUCTURAL and (fix is not None or skeleton.values)
    ):
        raise NoSkeletonError("what is found inside a text is not true of others")
    moved = fix is not None and finding.pointer in skeleton.others
    for operation in fix.patch if fix is not None else ():
        value = operation.get("value")
        moved = moved or skeleton.value(value) != value
    return CachedFinding(finding, moved)


def restored(item: CachedFinding, skeleton: Skeleton) -> Finding:
    """Returns a finding about a rest as one about a record that has it."""
    finding, fix = item.finding, item.finding.fix
    if fix is None or not item.moved:
        return finding
    patch: list[dict[str, Any]] = [
        op | {"value": skeleton.moved(finding.pointer, op["value"])} if "value" in op else op
        for op in fix.patch
    ]
    return replace(finding, fix=Fix(fix.title, fix.safe, tuple(patch)))
