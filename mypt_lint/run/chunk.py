"""Holds the outcome for a part of a source: findings, counts, and the keys of a baseline."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from mypt_lint.check.baseline import Key, keys
from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_lint.run.once import MIXED, UNREAD, OncePerFile, hold, is_once, join, once_findings

FAR = 1 << 48  # rows of a range count from here, so that none is taken for the file's first


@dataclass(slots=True)
class Chunk:
    """The outcome for a part of a source, in order.

    `position` is the number of bytes on disk read so far, for progress. `keys` are those of all
    findings, including known ones, which are not among `findings`; only with a baseline.
    `once_per_file` are findings that are shown once a file, at its end.
    """

    findings: list[Diagnostic] = field(default_factory=list)
    summary: Summary = field(default_factory=Summary)
    position: int = 0
    keys: set[Key] = field(default_factory=set)
    once_per_file: OncePerFile = field(default_factory=dict)

    def add(self, items: list[Diagnostic], raw: bytes, baseline: Collection[Key] | None) -> bool:
        """Adds the findings of a line that the baseline does not know, and counts the others.

        `baseline` are the keys of the baseline, None without one. Returns whether any is added.
        """
        before = len(self.findings)
        mixed = any(item.finding.code in (MIXED, UNREAD) for item in items)
        if baseline is None or not items:
            for item in items:
                if is_once(item):
                    hold(self.once_per_file, item)
                else:
                    self.findings.append(item)
            return mixed or len(self.findings) > before
        for item, key in zip(items, keys(items, raw), strict=True):
            if key is not None:
                self.keys.add(key)
            if key in baseline:
                self.summary.known += 1
            elif is_once(item):
                hold(self.once_per_file, item)
            else:
                self.findings.append(item)
        return len(self.findings) > before

    def join(self, later: Chunk) -> None:
        """Adds the next chunk of the same file, without its place."""
        self.findings += later.findings
        self.summary.add(later.summary)
        self.keys |= later.keys
        join(self.once_per_file, later.once_per_file)

    def moved(self, rows: int) -> Chunk:
        """Moves findings whose rows count from `FAR` to where they count after `rows`.

        Returns itself.
        """
        self.findings = [_moved(item, rows - FAR) for item in self.findings]
        for entry in self.once_per_file.values():
            entry.first = _moved(entry.first, rows - FAR)
        return self

    def counted(self, faulty: int) -> Chunk:
        """Counts its findings; of its units, `faulty` have some. Returns itself."""
        self.summary.faulty = faulty
        self.summary.clean = self.summary.units - faulty
        self.summary.tally(self.findings)
        return self


def _moved(item: Diagnostic, shift: int) -> Diagnostic:
    if item.row <= FAR:
        return item
    return replace(item, row=item.row + shift, end_row=item.end_row + shift)


def once(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yields the chunks; the last one of each file has the findings that are shown once."""
    once_per_file: OncePerFile = {}
    lines = 0
    for chunk in chunks:
        if chunk.once_per_file:
            join(once_per_file, chunk.once_per_file)
            chunk.once_per_file = {}
        lines += chunk.summary.units
        if chunk.summary.files:
            if once_per_file:
                items = once_findings(once_per_file, lines)
                chunk.summary.tally(items)
                chunk.findings = sorted([*chunk.findings, *items], key=lambda item: item.sort_key)
            once_per_file, lines = {}, 0
        yield chunk
