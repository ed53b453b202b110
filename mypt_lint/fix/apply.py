"""Makes the fixes of findings, each proved by linting the result. Pure: bytes in, bytes out.

A fix is made only where its finding goes and no other of any code comes, selected or not; so a
second pass finds nothing to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter

from mypt_lint.check.checker import Checker
from mypt_lint.check.texts import text_units
from mypt_lint.places.json_edit import edited_at_once
from mypt_spec.findings import RULES, Finding, Fix
from mypt_spec.patch import apply

_MOST_READ = 1 << 24  # code points that proofs of one line or text may read in all
_LOOKS = 40  # proofs that each line or text may have, however long
_AGAIN = 8  # proofs of fixes at whose places findings came when they were made with others
Codes = Counter[str]
# What is said of a record as it is meant; a fix that lets a call or an answer be read is no cause.
_REMARKS = {"MYP134", "MYP370"}


@dataclass(frozen=True)
class Fixer:
    """Fixes for the selected rules of a checker; `unsafe` ones change or guess content."""

    checker: Checker
    unsafe: bool = False

    @cached_property
    def full(self) -> Checker:
        """Returns the checker with all rules selected, which proves the fixes."""
        every, most = frozenset(RULES) - _REMARKS, 1 << 30
        return replace(
            self.checker, codes=every, severities=(), most=most, edits=False, proposals=True
        )

    @cached_property
    def blunt(self) -> Checker:
        """Returns a checker that finds the same, and looks for no fixes."""
        return replace(self.full, with_fixes=False)

    def line(self, raw: bytes, *, row: int) -> tuple[bytes | None, Codes]:
        """Returns a line without its LF, fixed (None: to be deleted), and the fixes by code."""
        try:
            before = raw.decode("utf-8")
        except UnicodeDecodeError:
            return raw, Counter()

        def look(text: str) -> list[Finding]:
            return self.findings(text, row=row)

        if not before.removeprefix("\ufeff").strip():
            if "MYP011" not in self.checker.codes:
                return raw, Counter()
            return None, Counter(f.code for f in look(before))
        after, codes = self.fixed(before, look, edited_at_once)
        return after.encode("utf-8"), codes

    def findings(self, line: str, *, row: int, fixes: bool = True) -> list[Finding]:
        """Returns all findings of a line, selected or not; it is faster not to look for `fixes`."""
        checker = self.full if fixes else self.blunt
        items = checker.line(line.encode("utf-8"), row=row, filename="")
        return [item.finding for item in items]

    def text(self, data: bytes) -> tuple[bytes, Codes]:
        """Returns a serialised text, fixed, and the number of fixes by code."""
        try:
            before = data.decode("utf-8")
        except UnicodeDecodeError:
            return data, Counter()

        def look(text: str) -> list[Finding]:
            items = text_units(self.full, text.encode("utf-8"), "").findings
            return [item.finding for item in items]

        after, codes = self.fixed(before, look, _apply_all)
        return after.encode("utf-8"), codes

    def fixed(
        self, text: str, look: Callable[[str], list[Finding]], make: Callable[[str, list[Fix]], str]
    ) -> tuple[str, Codes]:
        """Returns a line or text with all fixes that are proved, and their number by code.

        `look` returns the findings of a text; `make` carries out several fixes at once, if they go
        together.
        """
        remaining = look(text)
        first = codes = Counter(f.code for f in remaining)
        looks, again = max(_LOOKS, _MOST_READ // (len(text) + 1)), _AGAIN
        blamed: set[tuple[str, str]] = set()
        candidates = self._candidates(remaining, blamed)
        while looks and (findings := next(candidates, None)):
            if _key(findings[0]) in blamed:
                again -= 1
                if again < 0:
                    break
            try:
                new = make(text, [finding.fix for finding in findings if finding.fix is not None])
                if new == text:
                    continue
                looks -= 1
                after = look(new)
            except ValueError:  # a fix does not fit, or makes what UTF-8 cannot hold
                continue
            now = Counter(f.code for f in after)
            if now < codes and (
                len(findings) == 1 or now <= codes - Counter(f.code for f in findings)
            ):
                text, remaining, codes = new, after, now
                candidates = self._candidates(remaining, blamed)
            elif guilty := _guilty(findings, remaining, after) - blamed:
                blamed |= guilty
                candidates = self._candidates(remaining, blamed)
        return text, first - codes

    def _candidates(
        self, findings: Iterable[Finding], blamed: Container[tuple[str, str]]
    ) -> Iterator[list[Finding]]:
        """Yields findings whose fixes are tried together: all, then halves, and so on.

        Those of one place are kept apart: their fixes may not go together. What is `blamed` for new
        findings comes last.
        """
        places: Counter[str] = Counter()
        turns: list[tuple[int, Finding]] = []
        for finding in filter(self.wants, findings):
            turns.append((places[finding.pointer], finding))
            places[finding.pointer] += 1
        ordered = [finding for _, finding in sorted(turns, key=itemgetter(0))]
        yield from _halved([f for f in ordered if _key(f) not in blamed])
        yield from _halved([f for f in ordered if _key(f) in blamed])

    def wants(self, finding: Finding) -> bool:
        fix = finding.fix
        return fix is not None and finding.code in self.checker.codes and (fix.safe or self.unsafe)


def _halved(findings: list[Finding]) -> Iterator[list[Finding]]:
    size = len(findings)
    while size:
        yield from (findings[at : at + size] for at in range(0, len(findings), size))
        size //= 2


def _key(finding: Finding) -> tuple[str, str]:
    return finding.code, finding.pointer


def _guilty(
    tried: list[Finding], before: Iterable[Finding], after: Iterable[Finding]
) -> set[tuple[str, str]]:
    """Returns the keys of fixes made together that did no good: findings came, or all stayed.

    So a fix that is refused is found with all others, and not alone: of n texts, some of which
    cannot be fixed, that would be n looks at the whole of them.
    """
    if len(tried) == 1:
        return set()
    was, now = Counter(map(_key, before)), Counter(map(_key, after))
    places = {pointer for _, pointer in now - was if pointer}
    # A message that goes or comes moves the places of others, so what stayed is not known.
    ops = {op["op"] for f in tried if f.fix is not None for op in f.fix.patch}
    stayed = now & was if ops <= {"replace"} else Counter()
    keys = map(_key, tried)
    return {key for key in keys if key[1] in places or (key[1] and stayed[key] == was[key])}


def _apply_all(text: str, fixes: list[Fix]) -> str:
    edits = {edit for fix in fixes for edit in fix.edits}
    if len(edits) > len({edit[:2] for edit in edits}):
        raise ValueError("two fixes of one place")
    return str(apply(text, Fix("", False, edits=tuple(edits))))
