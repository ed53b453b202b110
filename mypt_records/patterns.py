"""Holds the patterns of content.toml."""

import re
from functools import cache
from pathlib import Path
from typing import Any

from mypt_spec.compiled.toml import load


@cache
def _tables() -> dict[str, Any]:
    return load(Path(__file__).with_name("content.toml"))


def table(name: str) -> dict[str, Any]:
    """Returns a table of content.toml."""
    out: dict[str, Any] = _tables()[name]
    return out


def rows() -> dict[str, list[str]]:
    """Returns the names of the tables of each rule that has no function of its own."""
    out: dict[str, list[str]] = {}
    for name, row in _tables().items():
        if "code" in row:
            out.setdefault(row["code"], []).append(name)
    return out


@cache
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile("|".join(table(name)["any"]), re.MULTILINE)


def needles(name: str) -> list[str]:
    """Returns strings of which a text with a match has one, in any case."""
    words: list[str] = table(name)["needles"]
    return words


def first(name: str, text: str) -> re.Match[str] | None:
    """Returns the first match of a pattern in a text."""
    words, lower = needles(name), text.lower()
    if words and not any(map(f"\0{lower}".__contains__, words)):
        return None
    return _pattern(name).search(text)


def has(name: str, text: str) -> bool:
    """Returns whether a pattern has a match in a text."""
    return first(name, text) is not None
