"""Compare a cache of findings with its checker, on lines and on others that have the same skeleton."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.fast.findings_cache import FindingsCache
from mypt_lint.fast.skeleton import NoSkeletonError, Skeleton
from tests.support.strategies import clean_text, json_values


def agree(recall: FindingsCache, line: bytes) -> None:
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


def alike(draw: Any, name: str, skeleton: Skeleton) -> bytes | None:
    """Draws another record of the skeleton: other texts and values for its placeholders."""
    strings, size = clean_text(name), len(skeleton.texts)
    texts = draw(
        st.lists(strings.map(str.strip).filter(bool), min_size=size, max_size=size, unique=True)
    )
    values: dict[str, Any] = {}
    for i, (sign, value) in enumerate(skeleton.values.items()):  # the number keeps them apart
        inner = draw(json_values(strings))
        values[sign] = (
            {f"k{i}": inner}
            if isinstance(value, dict)
            else [i, inner]
            if isinstance(value, list)
            else f"{draw(strings)} {i}"
        )
    try:
        return json.dumps(
            Skeleton(texts=dict(zip(skeleton.texts, texts, strict=True)), values=values).value(
                skeleton.rest
            ),
            ensure_ascii=draw(st.booleans()),
        ).encode()
    except NoSkeletonError:  # an object that is written as a string
        return None
