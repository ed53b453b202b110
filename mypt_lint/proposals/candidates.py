"""Looks for fixes that a finding alone does not show.

Input are a record or text and its findings; output are the findings, some with a fix. Such fixes
are for tags typed where the record has a field (typed_tags.py), messages in place of a field, and
tags that are missing, misspelt or doubled in a text.

Nothing here knows what may follow what. A candidate is made, read again, and kept if its finding is
gone and no other has come. That takes a check of the whole each, so it is done for a few findings;
others of a record may get what is found in their turn (turns.py), for the caller to prove. Only
text that the model itself writes is ever read as structure: text of users, documents and tools
stays text (invariant 6).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

from mypt_lint.proposals.turns import Turns
from mypt_lint.proposals.typed_tags import TypedTags
from mypt_spec.damage.near_miss import near_miss
from mypt_spec.dialect import Dialect
from mypt_spec.episode import Episode
from mypt_spec.findings import Finding, Fix
from mypt_spec.patch import apply

# Limits of the search.
_MOST = 8  # findings of one line or text for which a fix is looked for
_LONGEST = 1 << 18  # code points of a text
_Findings = list[Finding]
_Check = Callable[[Any], _Findings]


def candidates_of(
    dialect: Dialect,
    record: Any,
    episode: Episode | None,
    findings: _Findings,
    check: _Check,
    *,
    proposals: bool = False,
) -> _Findings:
    """Returns the findings of a record, with fixes for some that have none.

    `check` returns all findings of another record. With `proposals`, those beyond the first few
    have fixes without a proof of the whole.
    """
    if not _any_to_fix(findings) or not isinstance(record, dict):
        return findings
    proposer = _Record(dialect, record, episode, check)
    with_fixes = _with_fixes(findings, proposer.fixes, record, check)
    return [proposer.proposed(f) for f in with_fixes] if proposals else with_fixes


def text_candidates(dialect: Dialect, text: str, findings: _Findings, check: _Check) -> _Findings:
    """Returns the findings of a serialised text, with fixes for some that have none."""
    if len(text) > _LONGEST or not _any_to_fix(findings):
        return findings
    return _with_fixes(findings, lambda f: _for_text(dialect, text, f), text, check)


def _any_to_fix(findings: _Findings) -> bool:
    return any(f.fix is None and f.severity == "error" for f in findings)


def _with_fixes(
    findings: _Findings, candidates: Callable[[Finding], Iterator[Fix]], data: Any, check: _Check
) -> _Findings:
    """Returns the findings; the first few without a fix have the first candidate that helps."""
    before = Counter(f.code for f in findings)
    tried: dict[str, bool] = {}

    def helps(fix: Fix, code: str) -> bool:
        key = f"{code} {fix!r}"
        if key not in tried:
            try:
                now = Counter(f.code for f in check(apply(data, fix)))
            except ValueError:
                now = before
            tried[key] = now < before and now[code] < before[code]
        return tried[key]

    out: _Findings = []
    errors_tried = 0
    for finding in findings:
        fix = finding.fix
        if fix is None and finding.severity == "error" and errors_tried < _MOST:
            errors_tried += 1
            fix = next((f for f in candidates(finding) if helps(f, finding.code)), None)
        out.append(finding if fix is finding.fix else replace(finding, fix=fix))
    return out


@dataclass(frozen=True)
class _Record:
    """A record, and what is known of the ways to mend it."""

    dialect: Dialect
    record: dict[str, Any]
    episode: Episode | None
    check: _Check
    _fixes_by_pointer: dict[str, tuple[list[Fix], Iterator[Fix]]] = field(default_factory=dict)
    _dropped: dict[str, Fix | None] = field(default_factory=dict)

    def fixes(self, finding: Finding) -> Iterator[Fix]:
        """Yields all candidates for a finding. Findings of one place have the same."""
        if finding.pointer not in self._fixes_by_pointer:
            self._fixes_by_pointer[finding.pointer] = [], self._fixes(finding.pointer)
        cached, remaining = self._fixes_by_pointer[finding.pointer]
        yield from cached
        for fix in remaining:
            cached.append(fix)
            yield fix

    def _fixes(self, pointer: str) -> Iterator[Fix]:
        message = self._message(pointer)
        if message is not None:
            yield from self._folded(message) if self._typed is None else self._typed.fixes(pointer)

    def proposed(self, finding: Finding) -> Finding:
        """Returns a finding with the fix that it would have if one were looked for."""
        message = self._message(finding.pointer)
        if finding.fix is not None or finding.severity != "error" or message is None:
            return finding
        if self._typed is None:
            fix = next(self._folded(message), None)
        else:
            if finding.pointer not in self._dropped:
                self._dropped[finding.pointer] = next(self._typed.dropped(finding.pointer), None)
            fix = self._dropped[finding.pointer]
            if fix is None and self._typed.legal:
                fix = self._turns.fix(finding, message)
        return finding if fix is None else replace(finding, fix=fix)

    @cached_property
    def _typed(self) -> TypedTags | None:
        episode = self.episode
        return None if episode is None else TypedTags(self.dialect, self.record, episode)

    @cached_property
    def _turns(self) -> Turns:
        def look(turn: dict[str, Any]) -> _Findings:
            episode, _ = self.dialect.read(turn)
            return candidates_of(self.dialect, turn, episode, self.check(turn), self.check)

        return Turns(self.dialect, self.record, look)

    def _message(self, pointer: str) -> int | None:
        _, key, index, *_ = (*pointer.split("/"), "", "", "")
        inside = key == self.dialect.adapter.SCHEMA.messages and isinstance(
            self.record.get(key), list
        )
        return int(index) if inside and index else None

    def _folded(self, index: int) -> Iterator[Fix]:
        """Yields the fix that makes a message the field of the next message."""
        schema = self.dialect.adapter.SCHEMA
        messages = self.record.get(schema.messages)
        if not isinstance(messages, list) or index + 1 >= len(messages):
            return
        message, following = messages[index], messages[index + 1]
        if (
            not isinstance(message, dict)
            or not isinstance(following, dict)
            or message.keys() != {"role", "content"}
        ):
            return
        role, key = schema.folded.get(str(message["role"]), ("", ""))
        if following.get("role") == role and key not in following:
            base = f"/{schema.messages}/{index}"
            patch = (
                {"op": "remove", "path": base},
                {"op": "add", "path": f"{base}/{key}", "value": message["content"]},
            )
            yield Fix(f'make it the "{key}" of the {role} message behind it', True, patch=patch)


def _for_text(d: Dialect, text: str, finding: Finding) -> Iterator[Fix]:
    """Yields fixes that write the expected tag, correct the spelling, or delete the tag."""
    if finding.span is None:
        return
    start, end = finding.span
    miss = near_miss(text[start:end], d.table)
    if miss is not None:
        yield Fix(
            f"write `{miss.tag}`",
            False,
            edits=((start + miss.start, start + miss.end, miss.tag),),
        )
        return
    missing = [
        t
        for t in d.table.terminals.values()
        if t.shown in finding.expected and not t.opens and not t.patterns
    ]
    # A line end before the place may be the layout's.
    places = (start, start - 1) if text.endswith("\n", 0, start) else (start,)
    for terminal, place in product(missing, places):
        yield Fix(f"insert `{terminal.shown}`", False, edits=((place, place, terminal.spell()),))
    tag = text[start:end]
    if d.table.literals.fullmatch(tag):
        # A mark twice in a row means no more than one.
        twice = tag in {mark.shown for mark in d.table.marks.values()} and text[
            :start
        ].rstrip().endswith(tag)
        yield Fix(f"delete `{tag}`", twice, edits=((start, end, ""),))
