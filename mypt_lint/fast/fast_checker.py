"""Finds in blocks of lines what a Checker finds in each line, by the filter and the cache."""

from __future__ import annotations

from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_lint.fast.findings_cache import FindingsCache


class FastChecker:
    """A checker with what it remembers of the lines so far; belongs to one thread."""

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.clean_filter = CleanFilter(checker)
        self.cache = FindingsCache(self.clean_filter)

    def block(
        self, data: bytes, *, row: int, filename: str
    ) -> tuple[int, list[tuple[bytes, list[Diagnostic]]]]:
        """Returns how many lines a block has, and (line, findings) of each that may have some.

        `row` is that of its first line.
        """
        count, doubtful = self.clean_filter.unproved(data)
        out: list[tuple[bytes, list[Diagnostic]]] = []
        last: bytes | None = None
        for i, raw in doubtful:
            if raw == last:  # as in a run of blank lines
                items = [item.at_row(row + i) for item in out[-1][1]]
            elif self.checker.by_model:  # what it makes of a text is no matter of its skeleton
                items = self.checker.line(raw, row=row + i, filename=filename)
            else:
                items = self.cache.line(raw, row=row + i, filename=filename)
            out.append((raw, items))
            last = raw if row + i > 1 else None  # a byte order mark counts in the first row only
        return count, out
