"""Strings that are almost a tag: `<MyPT_user>`, `<myPT_asistant>`, `<myPT_tool_call>`."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple

from mypt_spec.tokens import TokenTable

_MAX = 60
_CUTOFF = 0.86  # one letter missing, doubled, added or changed in a tag of seven letters or more


class NearMiss(NamedTuple):
    text: str
    meant: str
    start: int
    end: int


def near_miss(text: str, table: TokenTable, start: int = 0) -> NearMiss | None:
    """The first near miss in a text at or after `start`; exact tags are none."""
    for match in _candidates(table.tags).finditer(text, start):
        found = match[0]
        if found not in table.tags:
            meant = _meant(found, table.tags)
            if meant:
                return NearMiss(found, meant, match.start(), match.end())
    return None


@lru_cache(maxsize=32)
def _candidates(tags: tuple[str, ...]) -> re.Pattern[str]:
    """What is long enough to be a tag: most `<...>` in text fail on the first look."""
    shortest = min((len(_letters(t)) for t in tags), default=2) - 2
    first = "".join(re.escape(c) for c in sorted({t[0] for t in tags} or {"<"}))
    return re.compile(rf"[{first}] ?[/|\\]?\|? ?[\w.-][\w. -]{{{max(0, shortest)},{_MAX}}}[/|]?[>\]]")


@lru_cache(maxsize=4096)
def _meant(found: str, tags: tuple[str, ...]) -> str:
    letters = _letters_of(tags, "/" in found[:3])
    mine = _letters(found)
    for tag, theirs in letters.items():
        if mine == theirs and theirs:
            return tag
    close = get_close_matches(mine, letters.values(), n=1, cutoff=_CUTOFF)
    return next((t for t, theirs in letters.items() if close and theirs == close[0]), "")


@lru_cache(maxsize=32)
def _letters_of(tags: tuple[str, ...], closing: bool) -> dict[str, str]:
    return {t: _letters(t) for t in tags if t.startswith(("</", "[/")) == closing}


def _letters(tag: str) -> str:
    return "".join(c for c in tag.lower() if c.isalnum())
