"""Patterns mean the same in every Python from 3.11 on.

Before 3.11.5, a possessive repetition was matched wrongly where a repetition inside of it is
followed by what may fail (https://github.com/python/cpython/issues/106052). An atomic group around
the inside, or around the alternative, is matched well.
"""

from __future__ import annotations

import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
POSSESSIVE = re.compile(r"\)(?:[*+?]|\{[\d,]+\})\+")
REPEATS = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}


def nested(items: Any) -> Iterator[tuple[str, Any]]:
    """Yields all parts of a parsed pattern, outer ones first."""
    for op, value in items:
        yield str(op), value
        for inner in parts(str(op), value):
            yield from nested(inner)


def parts(op: str, value: Any) -> list[Any]:
    """Returns the patterns inside of a part."""
    if op == "BRANCH":
        return list(value[1])
    if op in REPEATS:
        return [value[2]]
    if op in ("SUBPATTERN", "ASSERT", "ASSERT_NOT"):
        return [value[-1]]
    return [value] if op == "ATOMIC_GROUP" else []


def may_fail_late(items: Any) -> bool:
    """Returns whether a repetition is followed by what may fail, outside of atomic groups."""
    repeated = False
    for op, value in items:
        kind = str(op)
        if repeated and not (kind in REPEATS and value[0] == 0):
            return True
        if kind in ("BRANCH", "SUBPATTERN") and any(map(may_fail_late, parts(kind, value))):
            return True
        repeated |= kind in REPEATS
    return False


def wrong(pattern: str | bytes, flags: int = 0) -> bool:
    parsed = re._parser.parse(pattern, flags)  # type: ignore[attr-defined]
    return any(
        op == "POSSESSIVE_REPEAT" and may_fail_late(value[2]) for op, value in nested(parsed)
    )


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("(?:ab?c)*+", True),
        ("(?:x|ab*+c)++", True),
        ("(?:x|(?>ab*+c))++", False),
        ("(?>ab?c)*+", False),
        ("(?:[^a]*+(?:b[^a]*+)*+)*+", False),
        ("(?:ab?c)*", False),
    ],
)
def test_what_older_pythons_match_wrongly_is_known(pattern: str, says: bool) -> None:
    assert wrong(pattern) is says


def test_no_pattern_is_matched_wrongly_by_older_pythons() -> None:
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in sorted(ROOT.glob("mypt*/**/*.py"))
        if POSSESSIVE.search(path.read_text(encoding="utf-8"))
    ]
    patterns = []
    for name in names:
        for key, value in vars(importlib.import_module(name)).items():
            own = getattr(value, "__self__", value)  # of a method, such as `search`
            pattern = getattr(own, "pattern", None)
            if isinstance(pattern, str | bytes) and hasattr(own, "fullmatch"):
                patterns.append((f"{name}.{key}", pattern))
    text = (ROOT / "mypt_cli/jsonl/other_files.toml").read_text(encoding="utf-8")
    patterns += [(r["what"], r["begins"]) for r in tomllib.loads(text)["file"] if "begins" in r]
    assert len(names) >= 7
    assert len(patterns) >= 15
    assert [key for key, pattern in patterns if wrong(pattern)] == []
