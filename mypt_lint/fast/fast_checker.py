"""Finds in blocks of lines what a Checker finds in each line, by the filter and the cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING

from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import Diagnostic

if TYPE_CHECKING:
    from mypt_lint.fast.clean_filter import CleanFilter

FEW = 1 << 14  # bytes that the checker reads in less time than the filter takes to load


class FastChecker:
    """A checker with what it remembers of the lines so far; belongs to one thread.

    The checker alone reads the first bytes, up to `few`.
    """

    def __init__(self, checker: Checker, *, few: int = 0) -> None:
        self.checker, self.few = checker, few
        clean_chats = getattr(checker.by_model, "clean_chats", None)
        self.by_model = clean_chats(checker) if clean_chats else None

    @cached_property
    def clean_filter(self) -> CleanFilter:
        from mypt_lint.fast.clean_filter import CleanFilter

        return CleanFilter(self.checker)

    @cached_property
    def _line(self) -> Callable[..., list[Diagnostic]]:
        # What the template of a model makes of a text is no matter of its skeleton.
        if not self.checker.shape or self.checker.by_model:
            return self.checker.line
        from mypt_lint.fast.findings_cache import FindingsCache

        return FindingsCache(self.checker).line

    def block(
        self, data: bytes, *, row: int, filename: str
    ) -> tuple[int, list[tuple[bytes, list[Diagnostic]]]]:
        """Returns how many lines a block has, and (line, findings) of each that may have some.

        `row` is that of its first line.
        """
        self.few -= len(data)
        if self.few > 0:
            lines = BytesIO(data).readlines()
            count, doubtful = len(lines), [(i, x.removesuffix(b"\n")) for i, x in enumerate(lines)]
            check = self.checker.line
        else:
            (count, doubtful), check = self.clean_filter.unproved(data), self._line
        clean = self.by_model.placed([raw for _, raw in doubtful]) if self.by_model else ()
        out: list[tuple[bytes, list[Diagnostic]]] = []
        last: bytes | None = None
        for n, (i, raw) in enumerate(doubtful):
            if raw == last:  # as in a run of blank lines
                items = [item._replace(row=row + i, end_row=row + i) for item in out[-1][1]]
            elif self.by_model and (chat := clean[n]):
                self.by_model.model.stopped = 0
                items = self.checker.locate(
                    chat.findings, raw, row=row + i, filename=filename, unique=True
                )
            else:
                items = check(raw, row=row + i, filename=filename)
            out.append((raw, items))
            last = raw if row + i > 1 else None  # a byte order mark counts in the first row only
        return count, out
