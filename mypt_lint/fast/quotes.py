"""Counts the quotes that begin or end a string in JSON.

numpy counts up to ten times as fast, but takes as long to load as 5 MB of plain chats take to lint.
So a process loads it after `_LOAD` bytes, unless something else has done so before.
"""

import sys
from functools import cache
from typing import Any

_SMALL = 4 << 10  # bytes below which numpy is slower
_LARGE = 1 << 20
_LOAD = 16 << 20  # bytes whose counting takes as long as loading numpy

_counted = 0  # bytes that numpy would have counted faster


def unescaped_quotes(data: bytes | bytearray) -> int:
    """Returns how many quotes follow an even number of backslashes: two a string in valid JSON."""
    global _counted  # noqa: PLW0603
    if _SMALL <= len(data) <= _LARGE:
        if "numpy" in sys.modules or _counted > _LOAD:
            return _by_numpy(data)
        _counted += len(data)
    if b"\\" not in data:
        return data.count(b'"')
    # Pairs go, from the left: a backslash that remains before a quote escapes it.
    plain = data.replace(b"\\\\", b"")
    return plain.count(b'"') - plain.count(b'\\"')


def _by_numpy(data: bytes | bytearray) -> int:
    """Returns the same, of at most `_LARGE` bytes."""
    import numpy as np

    chars = np.frombuffer(data, np.uint8)
    quotes, slashes, escaped = _rooms()[:, : len(chars)]
    np.equal(chars, ord('"'), out=quotes)
    np.equal(chars, ord("\\"), out=slashes)
    escaped[0] = False
    np.logical_and(quotes[1:], slashes[:-1], out=escaped[1:])
    count = int(np.count_nonzero(quotes)) - int(np.count_nonzero(escaped))
    # A backslash before a quote may itself be escaped; few quotes have two before them.
    np.logical_and(escaped[2:], slashes[:-2], out=quotes[2:])
    if not quotes[2:].any():
        return count
    for quote in (np.flatnonzero(quotes[2:]) + 2).tolist():
        at = quote
        while at and data[at - 1] == ord("\\"):
            at -= 1
        count += (quote - at) % 2 == 0
    return count


@cache
def _rooms() -> Any:
    """Returns three boolean arrays to use again: fresh memory costs more than the counting."""
    import numpy as np

    return np.empty((3, _LARGE), bool)
