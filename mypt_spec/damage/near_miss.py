"""Recognises strings that are almost a tag: `<MyPT_user>`, `<myPT_asistant>`, `<myPT_tool_call>`.

Input is text and the token table; output is each such string with the tag that it is most like. A
misspelt tag is silent damage: the model learns its letters as text. Implements section 5 of
grammar/mypt/SPEC.md.

>>> import mypt_spec
>>> near_miss("Use <myPT_tool_call> here.", mypt_spec.dialect("mypt").table)
NearMiss(text='<myPT_tool_call>', tag='<myPT_toolcall>', start=4, end=20)
"""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple

from mypt_spec.table import TokenTable

_MAX = 60
_CUTOFF = 0.86  # one letter missing, doubled, added or changed in a tag of seven letters or more
# Shorter tags are words that occur by themselves: `<users>` is no `<user>`, nor is `<user>` a
# `<|user|>`.
_SHORT = 7


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
        word = match[0]
        if word not in table.tags:
            tag = _closest_tag(word, table.tags)
            if not tag and table.attributed and not table.literals.fullmatch(word):
                tag = _attributed(word, table.attributed)
            if tag:
                yield NearMiss(word, tag, match.start(), match.end())


@lru_cache(maxsize=32)
def beginnings(tags: tuple[str, ...]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Returns patterns of how tags and near misses begin, by first character.

    In most texts these find nothing, and find it fast.
    """
    seconds: dict[str, set[str]] = {"<": set()}
    for tag in tags:
        seconds.setdefault(tag[0], set()).add(re.escape(tag[1:2]))
    loose = r"[\w. /|\\-]"  # as in `_candidates`
    return tuple(
        (first, re.compile(f"{re.escape(first)}(?:{'|'.join([loose, *sorted(chars)])})"))
        for first, chars in sorted(seconds.items())
    )


@lru_cache(maxsize=32)
def _candidates(tags: tuple[str, ...], attributes: bool = False) -> re.Pattern[str]:
    """Returns a pattern of strings that may be tags: most `<...>` in text fail at once."""
    shortest = min((len(_letters(t)) for t in tags), default=2) - 2
    first = "".join(re.escape(c) for c in sorted({t[0] for t in tags} or {"<"}))
    plain = rf"[{first}] ?[/|\\]?\|? ?[\w.-][\w. -]{{{max(0, shortest)},{_MAX}}}[/|]?[>\]]"
    with_values = rf"|< ?[\w.-]{{1,{_MAX}}}[ =][^<>\n]{{0,{_MAX}}}>" if attributes else ""
    return re.compile(plain + with_values)


@lru_cache(maxsize=4096)
def _closest_tag(text: str, tags: tuple[str, ...]) -> str:
    bars = "|" in text
    letters = _letters_of(tags, "/" in text[:3], bars)
    mine = _letters(text)
    for tag, theirs in letters.items():
        if mine == theirs and len(theirs) > 1:  # `<b>` is a word
            return tag
    some = [theirs for theirs in letters.values() if len(theirs) >= _SHORT or bars]
    close = get_close_matches(mine, some, n=1, cutoff=_CUTOFF)
    return next((t for t, theirs in letters.items() if close and theirs == close[0]), "")


@lru_cache(maxsize=32)
def _letters_of(tags: tuple[str, ...], closing: bool, bars: bool) -> dict[str, str]:
    rows = {t: _letters(t) for t in tags if t.startswith(("</", "[/")) == closing}
    return {t: row for t, row in rows.items() if len(row) >= _SHORT or ("|" in t) == bars}


@lru_cache(maxsize=4096)
def _attributed(text: str, tags: tuple[str, ...]) -> str:
    """Returns the tag with attributes whose first word is almost that of `text`."""
    words = {_letters(t.split()[0]): t for t in tags}
    first = _letters(re.split(r"(?<=\w)[ =>]", text)[0])
    close = get_close_matches(first, words, n=1, cutoff=_CUTOFF)
    return words[close[0]] if close and not text.startswith("</") else ""


def _letters(tag: str) -> str:
    return "".join(c for c in tag.lower() if c.isalnum())
