"""Reads an object as a file, by ranges, and fetches the next one while one is read."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_LOOK = 1 << 18  # bytes of the first range at a place: many readers look at a beginning alone


class Ahead(io.RawIOBase):
    """A file of `end` bytes whose ranges `get(start, end)` returns.

    Fetching ahead begins with the second range at a place. After a seek, reading goes on from
    there, and what was fetched for another place is let go.
    """

    def __init__(
        self, get: Callable[[int, int], bytes | memoryview], end: int, *, piece: int, ahead: bool
    ) -> None:
        super().__init__()
        self._get, self._end, self._piece, self._ahead = get, end, piece, ahead
        self._at = 0
        # The piece that is read now, which begins at `_from`.
        self._fetched: bytes | memoryview = b""
        self._from = -1
        self._coming: Future[bytes | memoryview] | None = None  # the piece after it
        self._threads: ThreadPoolExecutor | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        base = {0: 0, 1: self._at, 2: self._end}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fills a buffer as far as the present piece reaches; returns 0 at the end."""
        if self._at >= self._end or not len(buffer):
            return 0
        if not self._from <= self._at < self._from + len(self._fetched):
            goes_on = self._at == self._from + len(self._fetched)
            self._fetched = b""
            self._fetched, self._from = self._next() if goes_on else self._look(), self._at
        first = self._at - self._from
        data = memoryview(self._fetched)[first : first + len(buffer)]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._drop()
            if self._threads is not None:
                self._threads.shutdown(wait=False, cancel_futures=True)
        super().close()

    def _look(self) -> bytes | memoryview:
        """Returns a first range at the present place."""
        self._drop()
        return self._get(self._at, min(self._at + min(self._piece, _LOOK), self._end))

    def _next(self) -> bytes | memoryview:
        """Returns the piece that begins at the present place, and asks for the one after it."""
        coming, end = self._coming, min(self._at + self._piece, self._end)
        self._coming = None
        if self._ahead and end < self._end:
            if self._threads is None:
                from concurrent.futures import ThreadPoolExecutor

                self._threads = ThreadPoolExecutor(2)  # one may still fetch for another place
            last = min(end + self._piece, self._end)
            self._coming = self._threads.submit(self._get, end, last)
        return coming.result() if coming is not None else self._get(self._at, end)

    def _drop(self) -> None:
        if self._coming is not None:
            self._coming.cancel()
            self._coming = None
