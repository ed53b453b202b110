"""Where the members of arrays and objects stand in a line of JSON, one container at a time.

What lies outside of a pointer is skipped by the JSON scanner of the standard library, which is many times as fast as looking
at every item. `locate.scan` says what is meant; lines that this scanner refuses are left to it.
"""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # not in its stubs
from typing import NamedTuple

_SPACE = re.compile(r"[ \t\r\n]*")
_VALUE = json.JSONDecoder(strict=False).scan_once  # type: ignore[attr-defined]


class Member(NamedTuple):
    """`text[start:end]` is the value. `key` is where its key stands; of a key that stands twice, where it does so first."""

    start: int
    end: int
    key: tuple[int, int] | None = None


class Members:
    """The places of one line that is valid JSON; each container is looked at once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._inner: dict[int, dict[str, Member]] = {}
        self._root: Member | None = None

    def find(self, tokens: list[str]) -> tuple[Member, bool] | None:
        """The value that the tokens of a pointer lead to, or its nearest ancestor and False. None where the line is not
        valid JSON, or too much for the scanner.
        """
        try:
            if self._root is None:
                start = _skip(self.text, 1 if self.text.startswith("\ufeff") else 0)
                self._root = Member(start, _VALUE(self.text, start)[1])
            member = self._root
            for token in tokens:
                inner = self._members(member.start).get(token)
                if inner is None:
                    return member, False
                member = inner
        except (ValueError, StopIteration, RecursionError, IndexError):
            return None
        return member, True

    def _members(self, start: int) -> dict[str, Member]:
        if start not in self._inner:
            read = {"{": self._object, "[": self._array}.get(self.text[start])
            self._inner[start] = read(_skip(self.text, start + 1)) if read else {}
        return self._inner[start]

    def _object(self, at: int) -> dict[str, Member]:
        text = self.text
        found: dict[str, Member] = {}
        repeats: dict[str, tuple[int, int]] = {}
        while text[at] != "}":
            key, end = scanstring(text, at + 1, False)
            start = _skip(text, _skip(text, end) + 1)
            if key in found:
                repeats.setdefault(key, (at, end))
            found[key] = Member(start, _VALUE(text, start)[1], repeats.get(key, (at, end)))
            at = _skip(text, found[key].end)
            if text[at] == ",":
                at = _skip(text, at + 1)
        return found

    def _array(self, at: int) -> dict[str, Member]:
        text = self.text
        found: dict[str, Member] = {}
        while text[at] != "]":
            member = found[str(len(found))] = Member(at, _VALUE(text, at)[1])
            at = _skip(text, member.end)
            if text[at] == ",":
                at = _skip(text, at + 1)
        return found


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
