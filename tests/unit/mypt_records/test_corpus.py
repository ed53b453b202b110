"""A trial by hand-written records: the right finding on faulty ones, none on clean ones."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from mypt_records.checks import findings
from mypt_records.names import NAMES, TEXTS
from mypt_records.shapes import read, shape_of
from tests.unit.mypt_records.corpus import CLEAN, FAULTY

SHAPES = [name for name in NAMES if name != TEXTS]


def messages(record: Any, shape: str) -> list[tuple[str, str, str]]:
    """Returns all findings but that no tool is declared: few rows declare what they call.

    `test_calls_without_tools` is about these.
    """
    reported = findings(read(record, shape))
    return [(f.code, f.pointer, f.message) for f in reported if f.code != "MYP134"]


@pytest.mark.parametrize("shape", SHAPES)
def test_each_fault_is_found(shape: str) -> None:
    reported = {
        name: Counter((code, pointer) for code, pointer, _ in messages(record, shape))
        for name, record, _ in FAULTY[shape]
    }
    assert reported == {name: Counter(expected) for name, _, expected in FAULTY[shape]}


@pytest.mark.parametrize("shape", SHAPES)
def test_clean_records_are_clean(shape: str) -> None:
    assert {name: shape_of(record) for name, record in CLEAN[shape]} == {
        name: shape for name, _ in CLEAN[shape]
    }
    reported = {name: messages(record, shape) for name, record in CLEAN[shape]}
    assert {name: items for name, items in reported.items() if items} == {}


def test_each_shape_is_tried() -> None:
    assert set(FAULTY) == set(CLEAN) == set(SHAPES)
    assert min(len(FAULTY[shape]) for shape in ("openai", "sharegpt")) >= 40
    for rows in (*FAULTY.values(), *CLEAN.values()):
        assert len({row[0] for row in rows}) == len(rows), "a name for each"
