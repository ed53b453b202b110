"""Finds the members of arrays and objects in a JSON text, no further than asked.

Input is a line and a pointer's tokens; output are offsets in the line. What lies outside of the
pointer is skipped by the JSON scanner of the standard library, which is many times as fast as a
look at every item. Texts that this scanner refuses are left to the caller.
"""

import json
import re
from collections.abc import Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]  # not in its stubs
from typing import NamedTuple

_SPACE = re.compile(r"[ \t\r\n]*")
# Of integers, Python reads no more than some thousand digits; here they stay text.
_VALUE = json.JSONDecoder(strict=False, parse_int=str).scan_once  # type: ignore[attr-defined]
_Key = tuple[int, int]
_Place = tuple[int, _Key | None]  # where a value begins, and the span of its key


class Member(NamedTuple):
    """A value `text[start:end]`, and the span of its key, of the second one if it occurs twice."""

    start: int
    end: int
    key: _Key | None = None


class Members:
    """The places of one line of valid JSON; `unique`: it is known to be, without repeated keys."""

    def __init__(self, text: str, *, unique: bool = False) -> None:
        self.text, self.unique = text, unique
        # By the start of an array or object: the members seen, and those still to see.
        self._inner: dict[int, tuple[dict[str, _Place], Iterator[tuple[str, _Place]]]] = {}
        self._refused = False

    def find(self, tokens: list[str]) -> tuple[Member, bool] | None:
        """Returns (value, True) for a pointer's tokens, or (nearest ancestor, False).

        Returns None where the line is not valid JSON, or nests too deep for the scanner.
        """
        if self._refused:
            return None
        try:
            start, key, exact = self._skip(1 if self.text.startswith("\ufeff") else 0), None, True
            for token in tokens:
                place = self._find(start, token)
                if place is None:
                    exact = False
                    break
                start, key = place
            return Member(start, _VALUE(self.text, start)[1], key), exact
        except (ValueError, StopIteration, RuntimeError, IndexError):
            self._refused = True
            return None

    def _find(self, start: int, token: str) -> _Place | None:
        if start not in self._inner:
            items = {"{": self._object, "[": self._array}.get(self.text[start])
            self._inner[start] = {}, items(start) if items else iter(())
        places, remaining = self._inner[start]
        if token in places and self.unique:
            return places[token]
        for key, place in remaining:
            places[key] = place
            if self.unique and key == token:
                break
        return places.get(token)

    def _object(self, start: int) -> Iterator[tuple[str, _Place]]:
        text = self.text
        once: dict[str, _Key] = {}
        twice: dict[str, _Key] = {}
        at = self._skip(start + 1)
        while text[at] != "}":
            if text[at] != '"':
                raise ValueError("no key")
            key, end = scanstring(text, at + 1, False)
            if key in once:
                twice.setdefault(key, (at, end))
            else:
                once[key] = at, end
            colon = end if text[end] == ":" else self._skip(end)
            if text[colon] != ":":
                raise ValueError("no colon")
            value = self._skip(colon + 1)
            yield key, (value, twice.get(key, (at, end)))
            end = _VALUE(text, value)[1]
            # Most lines have one space after a comma.
            at = end + 2 if text.startswith(', "', end) else self._next(end, "}")

    def _array(self, start: int) -> Iterator[tuple[str, _Place]]:
        text = self.text
        count = 0
        at = self._skip(start + 1)
        while text[at] != "]":
            yield str(count), (at, None)
            end = _VALUE(text, at)[1]
            at = end + 2 if text.startswith(", {", end) else self._next(end, "]")
            count += 1

    def _next(self, at: int, closing: str) -> int:
        """Returns where the next member begins, or the bracket that closes."""
        at = self._skip(at)
        if self.text[at] == ",":
            at = self._skip(at + 1)
            if self.text[at] != closing:
                return at
        elif self.text[at] == closing:
            return at
        raise ValueError("neither another member nor the end")

    def _skip(self, at: int) -> int:
        """Returns the offset after white space."""
        text = self.text
        if text[at : at + 1] > " ":
            return at
        if text[at : at + 1] == " " and text[at + 1 : at + 2] > " ":  # so in most lines
            return at + 1
        space = _SPACE.match(text, at)
        return space.end() if space else at
