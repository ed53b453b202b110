"""Finds the shortest text that a pattern matches.

Input: a regular expression as JSON Schema has it. Output: a text, which the caller must check with
a real reader of patterns. An ending of a string that a pattern binds is written with it: a search
that goes byte by byte cannot tell which bytes bring it nearer to a match, if the pattern refuses
none.
"""

from __future__ import annotations

import re

# Characters in the order in which they are taken where several match.
_CHARACTERS = "0aA-_. /:@" + "".join(map(chr, range(0x20, 0x7F)))
_LONGEST = 1000
_COUNT = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_GROUP = re.compile(r"\((\?(:|P?<\w+>))?(?!\?)")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^xup0-9])")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\\\]])*\]", re.DOTALL)
_NOTHING = frozenset("bBAzZ")


class Unreadable(ValueError):
    """The pattern has parts whose texts are not known here."""


def pattern_text(pattern: str) -> str:
    r"""Returns the shortest text that a pattern matches as a whole.

    Raises Unreadable for a pattern with conditions, references or classes by name.

    >>> pattern_text(r"^[a-z]+(?:-[a-z]+)*-v\d{2,}$"), pattern_text("on|off"), pattern_text("x?")
    ('a-v00', 'on', '')
    """
    reader = _Reader(pattern)
    found = reader.either()
    if reader.at < len(pattern):
        raise Unreadable(f"{pattern!r} at {reader.at}")
    return found


class _Reader:
    def __init__(self, pattern: str) -> None:
        self.pattern, self.at = pattern, 0

    def _next(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def either(self) -> str:
        """Returns the shortest of alternatives."""
        found = [self.sequence()]
        while self._next() == "|":
            self.at += 1
            found.append(self.sequence())
        return min(found, key=len)

    def sequence(self) -> str:
        out = ""
        while self._next() not in ("", "|", ")"):
            one = self.atom()
            out += one * self.count()
            if len(out) > _LONGEST:
                raise Unreadable("a long text")
        return out

    def count(self) -> int:
        """Returns how often the last atom has to be there."""
        least = 1
        sign = self._next()
        if sign and sign in "*?+":
            least, self.at = (1 if sign == "+" else 0), self.at + 1
        elif counted := _COUNT.match(self.pattern, self.at):
            least, self.at = int(counted[1]), counted.end()
        else:
            return 1
        if self._next() in ("?", "+"):
            self.at += 1
        return min(least, _LONGEST + 1)

    def atom(self) -> str:
        char = self._next()
        if char == "(":
            opened = _GROUP.match(self.pattern, self.at)
            if opened is None:
                raise Unreadable("a group with a condition")
            self.at = opened.end()
            found = self.either()
            if self._next() != ")":
                raise Unreadable("an open group")
            self.at += 1
            return found
        if char == "[":
            whole = _CLASS.match(self.pattern, self.at)
        elif char == "\\":
            whole = _ESCAPE.match(self.pattern, self.at)
        else:
            self.at += 1
            return "" if char in "^$" else _CHARACTERS[0] if char == "." else char
        if whole is None:
            raise Unreadable(f"{self.pattern!r} at {self.at}")
        self.at = whole.end()
        return "" if whole[0][1:] in _NOTHING else _first(whole[0])


def _first(one: str) -> str:
    """Returns the first character that a class or an escape matches."""
    try:
        matches = re.compile(one).fullmatch
    except re.error as error:
        raise Unreadable(str(error)) from None
    found = next((c for c in _CHARACTERS if matches(c)), None)
    if found is None:
        raise Unreadable(f"{one} matches no plain character")
    return found
