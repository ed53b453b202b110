"""Makes the fixes that need a pass over the whole data: lines deleted, texts spelled otherwise.

A text is changed only where no finding follows from it: none in its line, and none because its
episode is then like another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from mypt_lint.check.checker import Checker
from mypt_lint.check.suppress import suppressed
from mypt_lint.dataset.compare import DataSet, episode_of, within
from mypt_lint.dataset.fingerprints import of_episode
from mypt_lint.dataset.whitespace import CODES, untidy
from mypt_lint.fix.apply import Codes, Fixer
from mypt_lint.places.json_edit import edited_at_once
from mypt_lint.run.chunk import Chunk
from mypt_lint.run.resolve import Group
from mypt_records.names import OPT_OUT
from mypt_spec.episode import Episode
from mypt_spec.findings import Finding


class Repairs:
    """Knows what is to be fixed in all files; of duplicates, the first one stays."""

    def __init__(self, groups: Sequence[Group]) -> None:
        data = DataSet(groups)
        self._rows: dict[tuple[str, str], set[int]] = {}  # by code and file
        for chunk in data.chunks():
            for item in chunk.findings:
                place = item.finding.code, item.filename
                self._rows.setdefault(place, set()).add(item.number)
        self.active = any(group.checker.codes & CODES for group in groups)
        there = data.records.digests[0], data.records.answers[0]
        self._there: tuple[set[int], ...] = tuple(set(column.tolist()) for column in there)
        # Digests of episodes and of what is before an answer, to those after.
        self._moved: tuple[dict[int, int], ...] = ({}, {})

    def rows(self, path: str) -> tuple[set[int], set[int]]:
        """Returns the rows of a file that are to be deleted, and those with texts to be changed."""
        untidy = (self._rows.get((code, path), set()) for code in CODES)
        return self._rows.get(("MYP601", path), set()), set().union(*untidy)

    def tidied(self, fixer: Fixer, raw: bytes, *, row: int) -> tuple[bytes, Codes]:
        """Returns a line without its LF, its texts changed, and the number of fixes by code."""
        checker = fixer.checker
        before = episode_of(checker, raw)
        if before is None:
            return raw, Counter()

        def look(text: str) -> list[Finding]:
            parsed = episode_of(checker, text.encode("utf-8"))
            if parsed is None:
                raise ValueError("its episode is gone")
            others = chain(fixer.findings(text, row=row, fixes=False), within(parsed[1], checker))
            return [*(replace(f, fix=None) for f in others), *_spacing(fixer, text, *parsed, row)]

        text, codes = fixer.fixed(raw.decode("utf-8"), look, edited_at_once)
        line = text.encode("utf-8")
        after = episode_of(checker, line)
        if line == raw or after is None or not self._admits(checker, before[1], after[1]):
            return raw, Counter()
        return line, Counter({code: codes[code] for code in CODES if codes[code]})

    def _admits(self, checker: Checker, old: Episode, new: Episode) -> bool:
        """Returns whether no other episode is like the new one that was not like the old one."""
        changed = [
            (was, is_, there, moved)
            for there, moved, before, after in zip(
                self._there,
                self._moved,
                _digests(checker, old),
                _digests(checker, new),
                strict=True,
            )
            for was, is_ in zip(before, after, strict=True)
            if was != is_
        ]
        if any(is_ in there and moved.get(was) != is_ for was, is_, there, moved in changed):
            return False
        for was, is_, there, moved in changed:
            there.add(is_)
            moved.setdefault(was, is_)
        return True


def _spacing(
    fixer: Fixer, text: str, record: dict[str, Any], episode: Episode, row: int
) -> list[Finding]:
    """Returns the changes of a line: selected, not opted out of, and not known to the baseline."""
    checker = fixer.checker
    findings = [
        f for f in untidy(record, episode, checker.dialect.table) if f.code in checker.codes
    ]
    if OPT_OUT in record:
        remaining = suppressed(record[OPT_OUT], findings, checker.codes, complete=False)
        findings = [f for f in remaining if f.code in CODES]
    raw = text.encode("utf-8")
    items = fixer.full.locate(findings, raw, row=row, filename="")
    chunk = Chunk()
    chunk.add(items, raw, checker.baseline)
    return [item.finding for item in chunk.findings]


def _digests(checker: Checker, episode: Episode) -> tuple[list[int], list[int]]:
    """Returns the digest of an episode, and those of its messages before each answer."""
    digests = of_episode(episode, checker.dialect.table)
    return [digests.everything], [answer.context for answer in digests.answers]
