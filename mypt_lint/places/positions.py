r"""Turns a pointer and a span into columns of one physical line of JSON.

All offsets are code points of the line, counted from 0, the end exclusive. Only lines with findings
pay for this. Nothing here raises on any text.

`Members` reads only the objects and arrays on the way to the value of a pointer. A span counts the
decoded code points of a string; `StringColumns` goes through the escapes in its source.

In the line `{"a": ["x\ny"]}`, the pointer /a/0 has the offsets 7 to 13, and its span (1, 2), which
is the line end, has the offsets 9 to 11.
"""

import re
from bisect import bisect_left

from mypt_spec.bodies.members import Member, Members
from mypt_spec.bodies.strict_json import unescape
from mypt_spec.memo import lazy_re

_ESCAPE = lazy_re(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL
)


class Places:
    """The places of one line; `unique`: it is known to be JSON in which no key occurs twice."""

    def __init__(self, text: str, *, unique: bool = False) -> None:
        self.text = text
        self._members = Members(text, unique=unique)
        self._cached: dict[str, tuple[Member, bool] | None] = {}
        self._strings: dict[int, StringColumns] = {}

    def member(self, pointer: str) -> tuple[Member, bool] | None:
        """Returns the value of a pointer, or its nearest ancestor, as `Members.find` does."""
        if pointer not in self._cached:
            tokens = pointer.split("/")[1:]
            self._cached[pointer] = self._members.find([unescape(token) for token in tokens])
        return self._cached[pointer]

    def locate(
        self, pointer: str, span: tuple[int, int] | None = None, *, on_key: bool = False
    ) -> tuple[int, int]:
        """Returns the (start, end) of a pointer in the line.

        Without a span it is the whole key or value, a string with its quotes. With one it is the
        source of those decoded code points of the string; a span that reaches beyond the string is
        clamped, and on any other value it is ignored. A pointer that names nothing has the place of
        its nearest ancestor. Of a repeated key, the value is the last one and the key the second
        one. In a line that is not JSON, all have that of the line without its outer white space.
        """
        place = self.member(pointer)
        if place is None:
            inner = self.text.strip()
            start = self.text.find(inner)
            return start, start + len(inner)
        member, exact = place
        start, end = (member.key if exact and on_key else None) or (member.start, member.end)
        if span is None or not exact or not self.text.startswith('"', start):
            return start, end
        if start not in self._strings:
            self._strings[start] = StringColumns(self.text, start, end)
        return self._strings[start].of(span)


class StringColumns:
    """The columns of the JSON string `text[start:end]`, a literal with its quotes.

    For any number of spans: each escape is read once.
    """

    def __init__(self, text: str, start: int, end: int) -> None:
        self._end = end - 1
        self._escapes = _ESCAPE.finditer(text, start + 1, end - 1)
        self._decoded: list[int] = []  # of each escape read so far, its decoded offset
        self._shrinks = [start + 1]  # raw offset minus decoded offset, up to each escape

    def of(self, span: tuple[int, int]) -> tuple[int, int]:
        """Returns the source of decoded code points, clamped to the string.

        An escape is one code point, and so is a pair of surrogate escapes.
        """
        first, last = max(span[0], 0), max(span[0], span[1], 0)
        return self._column(first), self._column(last)

    def _column(self, target: int) -> int:
        while not self._decoded or self._decoded[-1] < target:
            escape = next(self._escapes, None)
            if escape is None:
                break
            self._decoded.append(escape.start() - self._shrinks[-1])
            self._shrinks.append(self._shrinks[-1] + len(escape[0]) - 1)
        return min(target + self._shrinks[bisect_left(self._decoded, target)], self._end)
