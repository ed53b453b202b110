"""Finds the shortest text that a pattern matches.

Input: a regular expression as JSON Schema has it. Output: a text, which the caller must check with
a real reader of patterns; or whether it can be matched without some characters. An ending of a
string that a pattern binds is written with such a text: a search that goes byte by byte cannot tell
which bytes bring it nearer to a match, if the pattern refuses none.
"""

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
    return _Reader(pattern).whole()


def avoids(pattern: str, characters: str) -> bool:
    r"""Returns whether each part of a pattern matches a character that is none of some.

    Then every text that it matches can be ended without these, from each place in it: whatever a
    part was to match, it matches something else, too. False also where the pattern is not read.

    >>> avoids("^[^a]+-x*$", "<"), avoids("^(x|<b>)$", "<")
    (True, False)
    """
    try:
        _Reader(pattern, characters).whole()
    except Unreadable:
        return False
    return True


class _Reader:
    """Reads a pattern, whose parts match characters that are none of `avoided`."""

    def __init__(self, pattern: str, avoided: str = "") -> None:
        self.pattern, self.at, self.avoided = pattern, 0, avoided

    def whole(self) -> str:
        text = self.either()
        if self.at < len(self.pattern):
            raise Unreadable(f"{self.pattern!r} at {self.at}")
        return text

    def _next(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def either(self) -> str:
        ways = [self.sequence()]
        while self._next() == "|":
            self.at += 1
            ways.append(self.sequence())
        return min(ways, key=len)

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
            group = _GROUP.match(self.pattern, self.at)
            if group is None:
                raise Unreadable("a group with a condition")
            self.at = group.end()
            text = self.either()
            if self._next() != ")":
                raise Unreadable("an open group")
            self.at += 1
            return text
        if char == "[":
            match = _CLASS.match(self.pattern, self.at)
        elif char == "\\":
            match = _ESCAPE.match(self.pattern, self.at)
        else:
            self.at += 1
            if char in self.avoided:
                raise Unreadable(f"{char} is avoided")
            return "" if char in "^$" else _CHARACTERS[0] if char == "." else char
        if match is None:
            raise Unreadable(f"{self.pattern!r} at {self.at}")
        self.at = match.end()
        return "" if match[0][1:] in _NOTHING else _first(match[0], self.avoided)


def _first(one: str, avoided: str) -> str:
    """Returns the first character that a class or an escape matches, and that is not avoided."""
    try:
        matches = re.compile(one).fullmatch
    except re.error as error:
        raise Unreadable(str(error)) from None
    character = next((c for c in _CHARACTERS if c not in avoided and matches(c)), None)
    if character is None and (not avoided or any(map(matches, avoided))):
        raise Unreadable(f"{one} matches no plain character")
    return character or "0"
