"""Merges the findings of two passes over the same sources, as if there had been one.

Input are the chunks of both, in order of place; output are chunks with the findings of both and
counts that agree. At most one chunk of each is held.
"""

from __future__ import annotations

from collections.abc import Iterator

from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.run.chunk import METADATA, ONE_LABEL, Chunk

_Place = tuple[str, int]
# Findings about a file: the line at which they are shown is not faulty because of them.
_OF_THE_FILE = frozenset({"MYP012", "MYP013", METADATA, ONE_LABEL})
_END: _Place = ("\U0010ffff", 0)


def interleaved(chunks: Iterator[Chunk], others: Iterator[Chunk]) -> Iterator[Chunk]:
    """Yields the chunks of the first pass, with the findings of the second in their places.

    A line that only the second pass finds fault with was counted as clean: here it is faulty.
    """
    ahead = _Ahead(others)
    for chunk in chunks:
        if chunk.findings:
            first, last = _place(chunk.findings[0]), _place(chunk.findings[-1])
            yield from ahead.before(first)
            for extra in ahead.before((last[0], last[1] + 1)):
                faulty = {
                    _place(item) for item in chunk.findings if item.finding.code not in _OF_THE_FILE
                }
                lines = faulty & {_place(item) for item in extra.findings}
                extra.summary.faulty -= len(lines)
                extra.summary.clean += len(lines)
                chunk.summary.add(extra.summary)
                chunk.keys |= extra.keys
                chunk.findings += extra.findings
            chunk.findings.sort(key=lambda item: item.sort_key)
        yield chunk
    yield from ahead.before(_END)


class _Ahead:
    """The second pass, as far as it is read."""

    def __init__(self, chunks: Iterator[Chunk]) -> None:
        self._chunks = chunks
        self._waiting: list[Diagnostic] = []
        self._at = 0

    def before(self, place: _Place) -> Iterator[Chunk]:
        """Yields its findings before a place, each counted; their lines are clean no more."""
        while True:
            out = Chunk()
            while self._at < len(self._waiting) and _place(self._waiting[self._at]) < place:
                out.findings.append(self._waiting[self._at])
                self._at += 1
            has_more = self._at < len(self._waiting)
            if not has_more:
                fresh = next(self._chunks, None)
                has_more = fresh is None
                if fresh is not None:
                    self._waiting, self._at = fresh.findings, 0
                    out.keys, out.summary.known = fresh.keys, fresh.summary.known
            out.summary.tally(out.findings)
            lines = len({_place(item) for item in out.findings})
            out.summary.faulty, out.summary.clean = lines, -lines
            yield out
            if has_more:
                return


def _place(item: Diagnostic) -> _Place:
    return item.filename, item.number
