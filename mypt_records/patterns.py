"""Holds the patterns of content.toml."""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("content.toml").read_text(encoding="utf-8"))


@cache
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile("|".join(_tables()[name]["any"]), re.MULTILINE)


def needles(name: str) -> list[str]:
    """Returns strings of which a text with a match has one, in any case."""
    words: list[str] = _tables()[name]["needles"]
    return words


def first(name: str, text: str) -> re.Match[str] | None:
    """Returns the first match of a pattern in a text."""
    words, lower = needles(name), text.lower()
    if words and not any(map(lower.__contains__, words)):
        return None
    return _pattern(name).search(text)
