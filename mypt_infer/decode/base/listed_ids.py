"""Follows a list of calls while it is written, and the ids in it."""

from __future__ import annotations

import json
from typing import NamedTuple

from mypt_spec.bodies.json_body import ID

# The most bytes of an id.
LONGEST = 64
# The digits that tables expect in the number of a call.
DIGITS = 4
_KEY = ID.encode()
# The bytes of a state, with what the decoder knows of it, without ids.
STATE_BYTES = 1500
# Strings of a call: the first one is a key, and if this key is ID, the next one is the id.
_ELSEWHERE, _FIRST, _NAMED = 0, 1, 2


class Ids(NamedTuple):
    """How far a list of calls was read.

    - `seen`: the ids of the calls before.
    - `depth`: the number of open brackets; -1 in a call without id, of which nothing matters any
      more.
    - `string`: what was read of the open string; deeper than a call's own members, only an escape.
    - `which`: which string of a call is open, or comes next.
    - `due`: the call must have an id here, and has none yet.
    - `last`: the id is the last member of its call, not the first.
    """

    seen: frozenset[bytes] = frozenset()
    depth: int = 0
    string: bytes | None = None
    which: int = _ELSEWHERE
    due: bool = False
    last: bool = False

    def read(self, data: bytes) -> Ids | None:
        """Returns the position after more text; None if an id is empty or occurs twice."""
        here: Ids | None = self
        for i in range(len(data)):
            if here is None or here.depth < 0:
                break
            here = here._read(data[i : i + 1])
        return here

    def _read(self, byte: bytes) -> Ids | None:
        if self.string is not None:
            if byte == b'"' and not _escaped(self.string):
                return self._after_string(self.string)
            if self.depth == 2:
                return self._replace(string=self.string + byte)
            return self._replace(string=byte * (byte == b"\\" and not self.string))
        if byte == b'"':
            return self._replace(string=b"")
        if byte in b"[{":
            return self._replace(
                depth=self.depth + 1, which=_FIRST if self.depth == 1 else self.which
            )
        if byte in b"]}":
            return self._replace(depth=self.depth - 1)
        if byte == b"," and self.depth == 1:
            return self._replace(due=True)
        key = self.last and byte == b"," and self.depth == 2
        return self._replace(which=_FIRST) if key else self

    def _after_string(self, string: bytes) -> Ids | None:
        here = self._replace(string=None)
        if self.depth != 2 or self.which == _ELSEWHERE:
            return here
        if self.which == _FIRST and string == _KEY:
            return here._replace(which=_NAMED, due=True)
        if self.which == _FIRST:
            return here._replace(which=_ELSEWHERE) if self.last else Ids(self.seen, -1)
        if not string or string in self.seen:
            return None
        return here._replace(seen=self.seen | {string}, which=_ELSEWHERE, due=False)

    @property
    def inside(self) -> bytes | None:
        """Returns what was read of the open id; None outside an id."""
        return self.string if self.depth == 2 and self.which == _NAMED else None

    @property
    def detour(self) -> int:
        """Returns how many tokens the nearest ending may take beyond those that the engine counts.

        The engine would choose any id; if that id is taken, another character is needed.
        """
        if self.inside is not None:
            return int(self.inside in self.seen or not (self.inside or self.last))
        if self.last:  # the engine counts a character of the id, which a token may bring along
            return int(self.due and bool(self.seen))
        begun = self.depth == 2 and self.which == _FIRST and bool(self.string)
        return int(self.due or (begun and _KEY.startswith(self.string or b"")))


class Number(Ids):
    """How far the number of a call was read: `which` it is, and the `string` that is due of it.

    Outside of calls, the string is None, in the body of a call "". Tables count `DIGITS` tokens.
    """

    def read(self, data: bytes) -> Ids | None:
        """Returns the position after more text of a call; None for another number."""
        due = b"%d" % self.which if self.string is None else self.string
        if self.string is None:
            data = data[len(data.rstrip(b"0123456789")) :]
        if not due or not due.startswith(data):
            return None if due else self
        due = due[len(data) :]
        return Number(depth=0 if due else -1, string=due, which=self.which + (not due))


def _escaped(text: bytes) -> bool:
    """Returns whether a text ends with an escape that was only begun."""
    return (len(text) - len(text.rstrip(b"\\"))) % 2 == 1


def is_text(text: bytes) -> bool:
    """Returns whether the inside of a string ends after a whole character and a whole escape."""
    try:
        json.loads(b'"' + text + b'"')
    except ValueError:
        return False
    return True
