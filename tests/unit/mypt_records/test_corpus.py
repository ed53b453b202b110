"""A trial by hand-written records: the right finding on faulty ones, none on clean ones."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from mypt_records.checks import findings
from mypt_records.names import NAMES, TEXTS
from mypt_records.shapes import read, shape_of
from tests.unit.mypt_records.corpus import CLEAN, FAULTY, a, o, tool, u

BAD = [(shape, *row) for shape, rows in FAULTY.items() for row in rows]
GOOD = [(shape, *row) for shape, rows in CLEAN.items() for row in rows]


def named(rows: list[Any]) -> list[str]:
    return [f"{row[0]}: {row[1]}" for row in rows]


@pytest.mark.parametrize(("shape", "_", "record", "wanted"), BAD, ids=named(BAD))
def test_the_fault_is_found(shape: str, _: str, record: Any, wanted: Any) -> None:
    found = [(f.code, f.pointer) for f in findings(read(record, shape))]
    assert Counter(found) == Counter(wanted)


@pytest.mark.parametrize(("shape", "_", "record"), GOOD, ids=named(GOOD))
def test_clean_records_are_clean(shape: str, _: str, record: Any) -> None:
    assert shape_of(record) == shape
    assert [(f.code, f.pointer, f.message) for f in findings(read(record, shape))] == []


def test_each_shape_is_tried() -> None:
    assert set(FAULTY) == set(CLEAN) == {*NAMES} - {TEXTS}
    assert min(len(FAULTY[shape]) for shape in ("openai", "sharegpt")) >= 40


def test_an_optional_type_of_python_says_what_to_write() -> None:
    parameters = {"type": "object", "properties": {"x": {"type": "str, optional"}}}
    (found,) = findings(read(o(u(), a(), tools=[tool(parameters=parameters)]), "openai"))
    assert found.help == 'write "type": "string", and leave the name out of "required"'
