"""Carry out the fixes of findings, each proved by linting what it makes. Pure: bytes in, bytes out.

A fix is made only where it takes its finding away and brings no other of any code, selected or not; so a second pass
finds nothing to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise

from mypt_spec.findings import RULES, Finding, Fix
from mypt_spec.fixes import apply
from mypt_spec.lint.check import Checker
from mypt_spec.lint.located import Located
from mypt_spec.lint.rawedit import edited
from mypt_spec.lint.texts import text_units

_ROUNDS = 500  # fixes of one line or text
Codes = Counter[str]


@dataclass(frozen=True)
class Fixer:
    """Fixes for one checker: those of the selected rules; with `unsafe`, those too that change or guess content."""

    checker: Checker
    unsafe: bool = False
    full: Checker = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "full", replace(self.checker, codes=frozenset(RULES), most=1 << 30)
        )

    def line(self, raw: bytes, *, row: int) -> tuple[bytes | None, Codes]:
        """A line of JSONL without its LF, fixed; None where it goes away. And what was fixed, by code."""
        try:
            before = raw.decode("utf-8")
        except UnicodeDecodeError:
            return raw, Counter()

        def look(text: str) -> list[Located]:
            return self.full.line(text.encode("utf-8"), row=row, filename="")

        if not before.removeprefix("\ufeff").strip():
            return (
                (None, Counter(i.finding.code for i in look(before)))
                if "MYP011" in self.checker.codes
                else (raw, Counter())
            )
        after, codes = self._fixed(before, look, edited)
        return after.encode("utf-8"), codes

    def text(self, data: bytes) -> tuple[bytes, Codes]:
        """A serialised text, fixed, and what was fixed, by code."""
        try:
            before = data.decode("utf-8")
        except UnicodeDecodeError:
            return data, Counter()

        def look(text: str) -> list[Located]:
            return text_units(self.full, text.encode("utf-8"), "").found

        after, codes = self._fixed(before, look, apply)
        return after.encode("utf-8"), codes

    def _fixed(
        self, text: str, look: Callable[[str], list[Located]], make: Callable[[str, Fix], str]
    ) -> tuple[str, Codes]:
        found = look(text)
        first = codes = Counter(item.finding.code for item in found)
        for _ in range(_ROUNDS):
            for fix in self._candidates(found):
                try:
                    new = make(text, fix)
                    seen = look(new) if new != text else found
                except ValueError:  # the fix does not fit, or makes what UTF-8 cannot hold
                    continue
                now = Counter(item.finding.code for item in seen)
                if now < codes:
                    text, found, codes = new, seen, now
                    break
            else:
                break
        return text, first - codes

    def _candidates(self, found: Iterable[Located]) -> Iterable[Fix]:
        """All at once, where places allow that; then one by one."""
        fixes = [
            item.finding.fix
            for item in found
            if self.wants(item.finding) and item.finding.fix is not None
        ]
        edits = sorted({edit for fix in fixes if not fix.patch for edit in fix.edits})
        apart = all(a[1] <= b[0] and a[:2] != b[:2] for a, b in pairwise(edits))
        if len(fixes) > 1 and apart and not any(fix.patch for fix in fixes):
            yield Fix("", False, edits=tuple(edits))
        yield from fixes

    def wants(self, finding: Finding) -> bool:
        """Whether the fix of a finding is to be made."""
        fix = finding.fix
        return fix is not None and finding.code in self.checker.codes and (fix.safe or self.unsafe)
