"""Caches results within bounds: a full memo drops the older half of its entries.

Input: keys and values, with their sizes if the sum of these is bounded too. Output: `entries`, an
ordinary dict, so that reading is as fast as it can be. Only `keep` writes to it.

>>> squares = Memo[int, int](2)
>>> [squares.keep(number, number * number) for number in range(3)]
[0, 1, 4]
>>> squares.entries
{1: 1, 2: 4}
"""

import re
from itertools import islice
from sys import maxsize
from typing import Any, AnyStr, Generic, TypeVar, cast

_K = TypeVar("_K")
_V = TypeVar("_V")


class Memo(Generic[_K, _V]):
    """Holds at most `limit` entries, whose sizes sum to at most `room`.

    `each` is what every entry takes beside the size that `keep` is told: where all are alike, none
    has to be told, and `keep` is faster. Threads may share a memo: a race may cost an entry, but
    raises no error.
    """

    __slots__ = ("_each", "_limit", "_room", "_sizes", "entries", "size")

    def __init__(self, limit: int, *, room: int = maxsize, each: int = 0) -> None:
        if limit < 1:
            raise ValueError(f"{limit} entries, expected at least 1")
        self.entries: dict[_K, _V] = {}  # the same object for ever: a reader may hold its `get`
        self.size = 0  # of all entries
        self._sizes: dict[_K, int] = {}  # those that are not 0
        self._limit = min(limit, max(room // each, 1)) if each else limit
        self._room, self._each = room, each

    @property
    def nbytes(self) -> int:
        """Returns the sizes of all entries, with what every one takes; at most `room`."""
        return self.size + self._each * len(self.entries)

    def keep(self, key: _K, value: _V, size: int = 0) -> _V:
        """Returns the value, and adds it as an entry unless it is larger than the room."""
        if key in self.entries:
            self.forget(key)
        if size + self._each > self._room:
            return value
        while self.entries and (
            len(self.entries) >= self._limit
            or self.size + size + self._each * (len(self.entries) + 1) > self._room
        ):
            for old in list(islice(self.entries, (len(self.entries) + 1) // 2)):
                self.forget(old)
        if size:
            self._sizes[key] = size
            self.size += size
        self.entries[key] = value
        return value

    def forget(self, key: _K) -> None:
        """Drops one entry, if there is one."""
        self.entries.pop(key, None)
        if self._sizes:
            self.size -= self._sizes.pop(key, 0)

    def clear(self) -> None:
        """Drops all entries."""
        self.entries.clear()
        self._sizes.clear()
        self.size = 0


class _Uncompiled:
    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern, self.flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        method = getattr(re.compile(self.pattern, self.flags), name)
        setattr(self, name, method)  # so this is asked only once
        return method


def lazy_re(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Returns what has the methods of `re.compile`, which is called at their first use.

    It is for constants of modules: a run needs few of those that it imports.
    """
    return cast("re.Pattern[AnyStr]", _Uncompiled(pattern, flags))
