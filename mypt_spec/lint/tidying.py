"""The fixes that need the pass over the whole data: which lines go, and which texts are written otherwise.

A text is changed only where no finding comes of it: none in its line, and none because its episode is then like another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as Rows

from mypt_spec.episode import Episode
from mypt_spec.findings import Finding
from mypt_spec.lint.check import Checker
from mypt_spec.lint.dataset import DataSet, episode_of, within
from mypt_spec.lint.digests import last_answer, prompt, whole
from mypt_spec.lint.fixing import Codes, Fixer
from mypt_spec.lint.located import Summary
from mypt_spec.lint.optout import OPT_OUT, opted_out
from mypt_spec.lint.plan import Group
from mypt_spec.lint.rawedit import edited
from mypt_spec.lint.runner import Chunk, settled
from mypt_spec.lint.seen import Seen
from mypt_spec.lint.untidy import CODES, untidy


class Repairs:
    """Reads all files of the groups, where the rules are selected; of duplicates, the first one stays."""

    def __init__(self, groups: Sequence[Group]) -> None:
        data = DataSet(groups)
        self._dropped: dict[str, set[int]] = {}
        self._untidy: dict[str, set[int]] = {}
        for chunk in data.chunks():
            for item in chunk.found:
                rows = (
                    self._dropped
                    if item.finding.code == "MYP601"
                    else self._untidy
                    if item.finding.code in CODES
                    else {}
                )
                rows.setdefault(item.filename, set()).add(item.row)
        self.wanted = any(group.checker.codes & CODES for group in groups)
        self._there = (data.episodes, data.prompts)
        self._moved = (Seen(), Seen())  # what episodes and prompts were, to what they are

    def rows(self, path: str) -> tuple[Rows[int], Rows[int]]:
        """Of a file, the rows that are to be deleted, and those with texts to be changed."""
        return self._dropped.get(path, set()), self._untidy.get(path, set())

    def tidied(self, fixer: Fixer, raw: bytes, *, row: int) -> tuple[bytes, Codes]:
        """A line without its LF, its texts changed, and what was fixed, by code."""
        read = episode_of(fixer.checker, raw)
        if read is None:
            return raw, Counter()
        line, now = raw, read[1]
        first = found = _wanted(fixer.checker, raw, row)
        refused: set[tuple[str, str]] = set()
        while (
            finding := next((f for f in found if (f.code, f.pointer) not in refused), None)
        ) is not None:
            new = _changed(fixer, line, finding, row)
            after = episode_of(fixer.checker, new) if new is not None else None
            if (
                new is None
                or after is None
                or _codes(within(after[1], fixer.checker)) - _codes(within(now, fixer.checker))
            ):
                refused.add((finding.code, finding.pointer))
                continue
            line, now = new, after[1]
            found = _wanted(fixer.checker, line, row)
        if line != raw and self._admits(fixer.checker, read[1], now):
            return line, _codes(first) - _codes(found)
        return raw, Counter()

    def _admits(self, checker: Checker, old: Episode, new: Episode) -> bool:
        """Whether no other episode is like the new one that was not like the old one."""
        pairs = list(zip(_digests(checker, old), _digests(checker, new), strict=True))
        for (was, is_), there, moved in zip(pairs, self._there, self._moved, strict=True):
            if was != is_ and there.get(is_) is not None and moved.get(was) != is_:
                return False
        for (was, is_), there, moved in zip(pairs, self._there, self._moved, strict=True):
            if was != is_:
                there.put(is_, 1)
                moved.put(was, is_)
        return True


def _wanted(checker: Checker, raw: bytes, row: int) -> list[Finding]:
    """What is to be changed in a line: selected, not opted out of, and not known to the baseline."""
    read = episode_of(checker, raw)
    if read is None:
        return []
    record, episode = read
    found = [f for f in untidy(record, episode, checker.dialect.table) if f.code in checker.codes]
    if OPT_OUT in record:
        found = [
            f
            for f in opted_out(record[OPT_OUT], found, checker.codes, complete=False)
            if f.code in CODES
        ]
    items = checker.locate(found, raw, row=row, filename="")
    return [item.finding for item in settled(checker, items, raw, Chunk([], Summary()))]


def _changed(fixer: Fixer, raw: bytes, finding: Finding, row: int) -> bytes | None:
    """The line with a fix carried out; None where it does not fit, or a finding of any other code comes of it."""
    if finding.fix is None:
        return None
    try:
        new = edited(raw.decode("utf-8"), finding.fix).encode("utf-8")
    except ValueError:
        return None
    before, after = (
        _codes(item.finding for item in fixer.full.line(line, row=row, filename=""))
        for line in (raw, new)
    )
    return None if after - before else new


def _codes(found: Iterable[Finding]) -> Counter[str]:
    return Counter(f.code for f in found)


def _digests(checker: Checker, episode: Episode) -> tuple[int, int]:
    """Of an episode, and of what stands before its last answer (0 without one)."""
    table = checker.dialect.table
    answer = last_answer(episode, table)
    return whole(episode.messages, table), prompt(
        episode, answer, table
    ) if answer is not None else 0
