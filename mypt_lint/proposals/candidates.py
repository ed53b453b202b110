"""Looks for fixes that a finding alone does not show.

Input are a record or text and its findings; output are the findings, some with a fix. Such fixes
are for tags typed where the record has a field (typed_tags.py), messages in place of a field, and
tags that are missing, misspelt or doubled in a text.

Nothing here knows what may follow what. A candidate is made, read again, and kept if its finding is
gone and no other has come. That takes a check of the whole each, so it is done for a few findings;
others of a record may get what is found in their turn, for the caller to prove. Only text that the
model itself writes is ever read as structure: text of users, documents and tools stays text
(invariant 6).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product, tee
from typing import Any

from mypt_lint.proposals.typed_tags import TypedTags
from mypt_spec.damage.near_miss import near_miss
from mypt_spec.dialect import Dialect
from mypt_spec.episode import Episode
from mypt_spec.findings import Finding, Fix
from mypt_spec.patch import apply

# Limits of the search.
_MOST = 8  # findings of one line or text for which a fix is looked for
_LONGEST = 1 << 18  # code points of a text
_SHARE = 16  # times the size of a record that its turns may have, each with what is before them all
_Findings = list[Finding]
_Check = Callable[[Any], _Findings]
_Key = tuple[str, str, tuple[int, int] | None]  # code, pointer and span of a finding


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
    _unread: dict[str, Iterator[Fix]] = field(default_factory=dict)  # by pointer
    _dropped: dict[str, Fix | None] = field(default_factory=dict)

    def fixes(self, finding: Finding) -> Iterator[Fix]:
        """Returns all candidates for a finding. Findings of one place have the same."""
        at = finding.pointer
        self._unread[at], out = tee(self._unread.get(at) or self._fixes(at))
        return out

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
    def _turns(self) -> _Turns:
        def look(turn: dict[str, Any]) -> _Findings:
            episode, _ = self.dialect.read(turn)
            return candidates_of(self.dialect, turn, episode, self.check(turn), self.check)

        return _Turns(self.dialect, self.record, look)

    def _message(self, pointer: str) -> int | None:
        _, key, index, *_ = (*pointer.split("/"), "", "", "")
        messages = self.dialect.adapter.SCHEMA.messages
        inside = key == messages and isinstance(self.record.get(key), list)
        return int(index) if inside and index else None

    def _folded(self, index: int) -> Iterator[Fix]:
        """Yields the fix that makes a message the field of the next message."""
        schema = self.dialect.adapter.SCHEMA
        pair = self.record[schema.messages][index : index + 2]
        if len(pair) < 2 or not all(isinstance(message, dict) for message in pair):
            return
        message, following = pair
        if message.keys() != {"role", "content"}:
            return
        role, key = schema.folded.get(str(message["role"]), ("", ""))
        if following.get("role") == role and key not in following:
            base = f"/{schema.messages}/{index}"
            patch = (
                {"op": "remove", "path": base},
                {"op": "add", "path": f"{base}/{key}", "value": message["content"]},
            )
            yield Fix(f'make it the "{key}" of the {role} message behind it', True, patch=patch)


@dataclass(frozen=True)
class _Turns:
    """The turns of a record, in each of which fixes are looked for as in a record by itself.

    That is what comes before all turns, then the turn's messages; so a record of many turns takes
    time in proportion to their number. A rule may see more than one turn, so a fix from here is not
    proved for the whole record. `look` returns the findings of a record, with fixes.
    """

    dialect: Dialect
    record: dict[str, Any]
    look: Callable[[dict[str, Any]], _Findings]
    _cache: dict[int, dict[_Key, Fix]] = field(default_factory=dict)

    def fix(self, finding: Finding, message: int) -> Fix | None:
        """Returns the fix that a finding has in its turn; a record of one turn has none."""
        turn = bisect_right(self._starts, message) - 1
        if turn < 0 or len(self._starts) < 2:
            return None
        if turn not in self._cache:
            self._cache[turn] = self._fixes(turn) if len(self._cache) < self._most else {}
        return self._cache[turn].get((finding.code, finding.pointer, finding.span))

    @property
    def _key(self) -> str:
        return self.dialect.adapter.SCHEMA.messages

    @cached_property
    def _starts(self) -> list[int]:
        schema, opener = self.dialect.adapter.SCHEMA, self.dialect.table.turn_opener
        roles = [str(message.get(schema.tag)) for message in self.record[self._key]]
        return [i for i, role in enumerate(roles) if schema.aliases.get(role, role) == opener]

    @cached_property
    def _most(self) -> int:
        head = {**self.record, self._key: self.record[self._key][: self._starts[0]]}
        return _SHARE * len(repr(self.record)) // len(repr(head))

    def _fixes(self, turn: int) -> dict[_Key, Fix]:
        messages, starts = self.record[self._key], [*self._starts, None]
        head = messages[: starts[0]]
        turn_messages = messages[starts[turn] : starts[turn + 1]]
        by = self._starts[turn] - len(head)
        fixes: dict[_Key, Fix] = {}
        for finding in self.look({**self.record, self._key: head + turn_messages}):
            if finding.fix is not None:
                patch = tuple(o | {"path": self._moved(o["path"], by)} for o in finding.fix.patch)
                key = finding.code, self._moved(finding.pointer, by), finding.span
                fixes.setdefault(key, Fix(finding.fix.title, finding.fix.safe, patch=patch))
        return fixes

    def _moved(self, pointer: str, by: int) -> str:
        """Returns a pointer into a message of a turn as one into the whole record."""
        owner, index, *deeper = pointer.removeprefix("/").split("/", 2)
        if owner != self._key or int(index) < self._starts[0]:
            return pointer
        return "/".join(["", owner, str(int(index) + by), *deeper])


def _for_text(d: Dialect, text: str, finding: Finding) -> Iterator[Fix]:
    """Yields fixes that write the expected tag, correct the spelling, or delete the tag."""
    if finding.span is None:
        return
    start, end = finding.span
    miss = near_miss(text[start:end], d.table)
    if miss is not None:
        edit = start + miss.start, start + miss.end, miss.tag
        yield Fix(f"write `{miss.tag}`", False, edits=(edit,))
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
        marks = {mark.shown for mark in d.table.marks.values()}
        twice = tag in marks and text[:start].rstrip().endswith(tag)
        yield Fix(f"delete `{tag}`", twice, edits=((start, end, ""),))
