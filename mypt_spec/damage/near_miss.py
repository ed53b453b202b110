"""Recognises strings that are almost a tag: `<MyPT_user>`, `<myPT_asistant>`, `<myPT_tool_call>`.

Input is text and the token table; output is each such string with the tag that it is most like. A
misspelt tag is silent damage: the model learns its letters as text. Implements section 5 of
grammar/mypt/SPEC.md.

>>> import mypt_spec
>>> near_miss("Use <myPT_tool_call> here.", mypt_spec.dialect("mypt").table)
NearMiss(text='<myPT_tool_call>', tag='<myPT_toolcall>', start=4, end=20)
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from mypt_spec.findings import closest
from mypt_spec.table import TokenTable, pattern

_MAX = 60
_CUTOFF = 0.86  # one letter missing, doubled, added or changed in a tag of seven letters or more
# Shorter tags are words that occur by themselves: `<users>` is no `<user>`, nor is `<user>` a
# `<|user|>`.
_SHORT = 7
_ESCAPED = re.compile(r'[\0-\x1f"\\]')  # in JSON


class NearMiss(NamedTuple):
    text: str
    tag: str
    start: int
    end: int


def near_miss(text: str, table: TokenTable, start: int = 0) -> NearMiss | None:
    """Returns the first near miss in a text at or after `start`; exact tags are none."""
    return next(near_misses(text, table, start), None)


def near_misses(text: str, table: TokenTable, start: int = 0) -> Iterator[NearMiss]:
    """Yields all near misses in a text at or after `start`."""
    for match in _candidates(table.tags, bool(table.attributed)).finditer(text, start):
        tag = _meant(match[0], table)
        if tag:
            yield NearMiss(match[0], tag, match.start(), match.end())


def spots(text: str, finders: Iterable[re.Pattern[str]], table: TokenTable) -> Iterator[int]:
    """Yields where a text has tags, by the `literal_finders`, or near misses, and maybe others."""
    for finder in finders:
        yield from (match.start() for match in finder.finditer(text))
    for finder in _finders(table.tags, bool(table.attributed)):
        found = finder.finditer(text)
        yield from (m.start() for m in found if m[0] in table.special or _meant(m[0], table))


def literal_finders(table: TokenTable) -> list[re.Pattern[str]]:
    """Returns one pattern for each first character of the literals of a table.

    To search for each takes far less time than for all at once. Near misses are left to theirs.
    """
    by_first: dict[str, list[str]] = {}
    alike = _candidates(table.tags, bool(table.attributed)).fullmatch
    sources = [re.escape(s) for s in table.special if s[0] not in "<[" or not alike(s)]
    for source in sources + [pattern(tag, core=True) for tag in table.plain_tags]:
        by_first.setdefault(source[: 1 + source.startswith("\\")], []).append(source)
    return [re.compile("|".join(sources)) for sources in by_first.values()]


def _meant(word: str, table: TokenTable) -> str:
    """Returns the tag that a word is almost; empty for none, and for a tag."""
    if word in table.tags:
        return ""
    tag = _closest_tag(word, table.tags)
    if not tag and table.attributed and not table.literals.fullmatch(word):
        tag = _attributed(word, table.attributed)
    return tag


def sieve(table: TokenTable, edges: Iterable[str] = ()) -> list[re.Pattern[bytes]]:
    """Returns patterns, of which one matches in each text with a tag, a near miss, or an edge.

    The text is UTF-8, or JSON, in lower case. A pattern for each first byte takes little time.
    """
    pieces = [[p.value for p in tag.spelling if p.kind != "space"] for tag in table.plain_tags]
    words = (*table.special, *edges, *("".join(some[:1]) for some in pieces))
    ways = [(word[:1], re.escape(_ESCAPED.split(word[1:])[0])) for word in words]
    plain, *others = _forms(table.tags, "", bool(table.attributed), 6 * _MAX)  # bytes, in JSON
    plain = plain.replace(r"[/|\\]?", r"[/|\\]{0,2}")
    ways += [*((t[0], plain) for t in table.tags or ("<",)), *(("<", o[1:]) for o in others)]
    rests: dict[bytes, set[bytes]] = {}
    for first, rest in ways:
        start, after = first.encode().lower(), rest.replace(r"\w", r"\w\x80-\xfe").encode().lower()
        rests.setdefault(start[:1], set()).add(re.escape(start[1:]) + after)
    return [re.compile(re.escape(c) + b"(?:%b)" % b"|".join(some)) for c, some in rests.items()]


@lru_cache(maxsize=32)
def _candidates(tags: tuple[str, ...], attributes: bool = False) -> re.Pattern[str]:
    """Returns a pattern of strings that may be tags: most `<...>` in text fail at once."""
    first = "".join(re.escape(c) for c in sorted({t[0] for t in tags} or {"<"}))
    return re.compile("|".join(_forms(tags, f"[{first}]", attributes)))


@lru_cache(maxsize=32)
def _finders(tags: tuple[str, ...], attributes: bool = False) -> tuple[re.Pattern[str], ...]:
    """Returns patterns of the same strings, one for each first character."""
    firsts = sorted({t[0] for t in tags} or {"<"})
    return tuple(re.compile(s) for c in firsts for s in _forms(tags, re.escape(c), attributes))


def _forms(tags: tuple[str, ...], first: str, attributes: bool, most: int = _MAX) -> list[str]:
    shortest = min((len(_letters(t)) for t in tags), default=2) - 2
    # What follows repeated characters is none of these, so a shorter run would not match, either.
    plain = rf"{first} ?[/|\\]?\|? ?[\w.-][\w. -]{{{max(0, shortest)},{most}}}+[/|]?[>\]]"
    with_values = rf"< ?[\w.-]{{1,{most}}}+[ =][^<>\n]{{0,{most}}}+>"
    return [plain, with_values] if attributes else [plain]


@lru_cache(maxsize=4096)
def _closest_tag(text: str, tags: tuple[str, ...]) -> str:
    bars = "|" in text
    letters = _letters_of(tags, "/" in text[:3], bars)
    mine = _letters(text)
    for tag, theirs in letters.items():
        if mine == theirs and len(theirs) > 1:  # `<b>` is a word
            return tag
    some = tuple([theirs for theirs in letters.values() if len(theirs) >= _SHORT or bars])
    close = closest(mine, some, _CUTOFF)
    return next((t for t, theirs in letters.items() if close and theirs == close), "")


@lru_cache(maxsize=32)
def _letters_of(tags: tuple[str, ...], closing: bool, bars: bool) -> dict[str, str]:
    rows = {t: _letters(t) for t in tags if t.startswith(("</", "[/")) == closing}
    return {t: row for t, row in rows.items() if len(row) >= _SHORT or ("|" in t) == bars}


@lru_cache(maxsize=4096)
def _attributed(text: str, tags: tuple[str, ...]) -> str:
    """Returns the tag with attributes whose first word is almost that of `text`."""
    words = {_letters(t.split()[0]): t for t in tags}
    first = _letters(re.split(r"(?<=\w)[ =>]", text)[0])
    close = closest(first, (*words,), _CUTOFF)
    return words[close] if close and not text.startswith("</") else ""


def _letters(tag: str) -> str:
    return "".join(c for c in tag.lower() if c.isalnum())
