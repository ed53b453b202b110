"""Compare a cache of findings with its checker, on lines and on others that have the same skeleton."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.fast.findings_cache import FindingsCache
from mypt_lint.fast.skeleton import NoSkeletonError, Skeleton
from tests.support.maker import Maker


def assert_same_findings(recall: FindingsCache, line: bytes) -> None:
    """Asserts that a cache says what its checker says, when it learns the line and once more."""
    found = recall.checker.line(line, row=2, filename="f")
    for _ in range(2):
        recalled = recall.line(line, row=2, filename="f")
        assert recalled == found, line
        assert [severity(item) for item in recalled] == [severity(item) for item in found]


def severity(item: Diagnostic) -> str:
    """Returns the severity of a finding."""
    return item.finding.severity


def skeleton_of(recall: FindingsCache, line: bytes) -> Skeleton | None:
    """Returns the skeleton of a line, or None where it has none."""
    try:
        record = recall.decode(line)
        return (
            recall.skeletons.of(record) if recall.skeletons and isinstance(record, dict) else None
        )
    except (ValueError, OverflowError, RecursionError):
        return None


def alike(random: Random, name: str, skeleton: Skeleton) -> bytes | None:
    """Returns another record of the skeleton: other texts and values for its placeholders.

    None where an object is written as a string, which has no skeleton.
    """
    make = Maker(random, name)
    texts: list[str] = []
    while len(texts) < len(skeleton.texts):
        text = make.text().strip() or "a"
        texts.append(text if text not in texts else f"{text} {len(texts)}")
    values: dict[str, Any] = {}
    for i, (sign, value) in enumerate(skeleton.values.items()):  # the number keeps them apart
        values[sign] = (
            {f"k{i}": make.value()} if isinstance(value, dict)
            else [i, make.value()] if isinstance(value, list)
            else f"{make.string()} {i}"
        )  # fmt: skip
    other = Skeleton(texts=dict(zip(skeleton.texts, texts, strict=True)), values=values)
    try:
        return json.dumps(other.value(skeleton.rest), ensure_ascii=make.one_in(2)).encode()
    except NoSkeletonError:
        return None
