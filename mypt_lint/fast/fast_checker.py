"""Finds in blocks of lines what a Checker finds in each line, by the filter and the cache."""

from collections.abc import Callable

from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.fast.clean_filter import CleanFilter


class FastChecker:
    """A checker with what it remembers of the lines so far; belongs to one thread."""

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.clean_filter = CleanFilter(checker)
        self._line: Callable[..., list[Diagnostic]] = checker.line
        # What the template of a model makes of a text is no matter of its skeleton.
        if checker.shape and not checker.by_model:
            # Records of a dialect need none of it.
            from mypt_lint.fast.findings_cache import FindingsCache

            self._line = FindingsCache(checker).line
        clean_chats = getattr(checker.by_model, "clean_chats", None)
        self.by_model = clean_chats(checker) if clean_chats else None

    def block(
        self, data: bytes, *, row: int, filename: str
    ) -> tuple[int, list[tuple[bytes, list[Diagnostic]]]]:
        """Returns how many lines a block has, and (line, findings) of each that may have some.

        `row` is that of its first line.
        """
        count, doubtful = self.clean_filter.unproved(data)
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
                items = self._line(raw, row=row + i, filename=filename)
            out.append((raw, items))
            last = raw if row + i > 1 else None  # a byte order mark counts in the first row only
        return count, out
