"""Counting quotes, and finding the lines of a block: by bytes for a line, by numpy for a block."""

from __future__ import annotations

from dataclasses import dataclass

_SMALL = 32 << 10  # bytes of a block below which loading numpy does not pay for itself


def unescaped_quotes(raw: bytes) -> int:
    """The quotes of valid JSON that begin or end a string."""
    if b"\\" not in raw:
        return raw.count(b'"')
    plain = raw.replace(b"\\\\", b"")  # pairs from the left: what is left before a quote escapes it
    return plain.count(b'"') - plain.count(b'\\"')


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a block: where each begins and ends (without its line end), and its unescaped quotes."""

    starts: list[int]
    ends: list[int]
    quotes: list[int]

    @staticmethod
    def of(data: bytes) -> Lines | None:
        """None for a small block, and for one in which some line is not `{...}` without anything around it."""
        if len(data) < _SMALL or data[-1:] != b"\n":
            return None
        import numpy as np

        chars = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(chars == ord("\n"))
        starts = np.concatenate(([0], ends[:-1] + 1))
        if not ((chars[starts] == ord("{")).all() and (chars[ends - 1] == ord("}")).all()):
            return None
        quotes = chars == ord('"')
        slashes = chars == ord("\\")
        escaped = slashes[:-1] & quotes[1:]
        counts = np.add.reduceat(quotes, starts, dtype=np.int32)
        counts[:] -= np.add.reduceat(escaped, starts, dtype=np.int32)  # a line never ends in a slash
        found: list[int] = counts.tolist()
        slashes[1:] &= slashes[:-1]
        slashes[0] = False
        for line in set(np.searchsorted(ends, np.flatnonzero(slashes)).tolist()):
            found[line] = unescaped_quotes(data[int(starts[line]) : int(ends[line])])
        return Lines(starts.tolist(), ends.tolist(), found)

    def span(self, index: int) -> tuple[int, int]:
        return self.starts[index], self.ends[index]

    def longer_than(self, limit: int | None) -> set[int]:
        """The lines of more bytes than `limit`."""
        if limit is None:
            return set()
        return {i for i, (a, b) in enumerate(zip(self.starts, self.ends, strict=True)) if b - a > limit}
