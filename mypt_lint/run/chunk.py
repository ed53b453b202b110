"""Holds the outcome for a part of a source: findings, counts, and the keys of a baseline."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from mypt_lint.check.baseline import Key, keys
from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_lint.run.once import MIXED, UNREAD, Held, hold, is_once, join, told

FAR = 1 << 48  # rows of a range count from here, so that none is taken for the file's first


@dataclass(slots=True)
class Chunk:
    """The outcome for a part of a source, in order.

    `position` is the number of bytes on disk read so far, for progress. `keys` are those of all
    findings, including known ones, which are not among `found`; only with a baseline. `held` are
    findings that are shown once a file, at its end.
    """

    found: list[Diagnostic] = field(default_factory=list)
    summary: Summary = field(default_factory=Summary)
    position: int = 0
    keys: set[Key] = field(default_factory=set)
    held: Held = field(default_factory=dict)

    def add(self, items: list[Diagnostic], raw: bytes, known: Collection[Key] | None) -> bool:
        """Adds the findings of a line that the baseline does not know, and counts the others.

        `known` are the keys of the baseline, None without one. Returns whether any is added.
        """
        before = len(self.found)
        mixed = any(item.finding.code in (MIXED, UNREAD) for item in items)
        if known is None or not items:
            for item in items:
                if is_once(item):
                    hold(self.held, item)
                else:
                    self.found.append(item)
            return mixed or len(self.found) > before
        for item, key in zip(items, keys(items, raw), strict=True):
            if key is not None:
                self.keys.add(key)
            if key in known:
                self.summary.known += 1
            elif is_once(item):
                hold(self.held, item)
            else:
                self.found.append(item)
        return len(self.found) > before

    def join(self, later: Chunk) -> None:
        """Adds the next chunk of the same file, without its place."""
        self.found += later.found
        self.summary.add(later.summary)
        self.keys |= later.keys
        join(self.held, later.held)

    def moved(self, rows: int) -> Chunk:
        """Moves findings whose rows count from `FAR` to where they count after `rows`.

        Returns itself.
        """
        self.found = [_moved(item, rows - FAR) for item in self.found]
        for held in self.held.values():
            held.first = _moved(held.first, rows - FAR)
        return self

    def counted(self, faulty: int) -> Chunk:
        """Counts its findings; of its units, `faulty` have some. Returns itself."""
        self.summary.faulty = faulty
        self.summary.clean = self.summary.units - faulty
        self.summary.tally(self.found)
        return self


def _moved(item: Diagnostic, shift: int) -> Diagnostic:
    if item.row <= FAR:
        return item
    return replace(item, row=item.row + shift, end_row=item.end_row + shift)


def once(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yields the chunks; the last one of each file has the findings that are shown once."""
    held: Held = {}
    lines = 0
    for chunk in chunks:
        if chunk.held:
            join(held, chunk.held)
            chunk.held = {}
        lines += chunk.summary.units
        if chunk.summary.files:
            if held:
                items = told(held, lines)
                chunk.summary.tally(items)
                chunk.found = sorted([*chunk.found, *items], key=lambda item: item.sort_key)
            held, lines = {}, 0
        yield chunk
