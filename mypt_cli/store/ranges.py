"""Reads an object as a file, by ranges."""

import io
from collections.abc import Callable
from typing import Any

_LOOK = 1 << 18  # bytes of the first range at a place: many readers look at a beginning alone


class Ranges(io.RawIOBase):
    """A file of `end` bytes whose ranges `get(start, end)` returns; it holds one of them."""

    def __init__(
        self, get: Callable[[int, int], bytes | memoryview], end: int, *, piece: int
    ) -> None:
        super().__init__()
        self._get, self._end, self._piece = get, end, piece
        self._at = 0
        self._fetched: bytes | memoryview = b""
        self._from = -1  # where that begins

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
        first = self._at - self._from
        if not 0 <= first < len(self._fetched):
            size = self._piece if first == len(self._fetched) else min(self._piece, _LOOK)
            self._fetched, self._from, first = b"", self._at, 0
            self._fetched = self._get(self._at, min(self._at + size, self._end))
        data = memoryview(self._fetched)[first : first + len(buffer)]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
