"""Faults of JSON values: the walk that skips sound values finds the same as a plain walk."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mypt_spec.bodies.strict_json import MAX_DEPTH, faults, json_text
from tests.support.maker import any_json, drawn

WORDS = ["a", "b\u00e9", "\ud800", "x\udfff", ""]
VALUES = drawn(lambda random: any_json(random, WORDS, [*WORDS, math.nan, -math.inf, 0]))


def naive(value: Any, pointer: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yields codes and pointers, in the order of the value."""
    if depth > MAX_DEPTH:
        yield "MYP008", pointer
    elif isinstance(value, str):
        if any("\ud800" <= char <= "\udfff" for char in value):
            yield "MYP006", pointer
    elif isinstance(value, dict):
        for key in value:
            if any("\ud800" <= char <= "\udfff" for char in key):
                yield "MYP006", f"{pointer}/{key}"
        for key, inner in value.items():
            yield from naive(inner, f"{pointer}/{key}", depth + 1)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from naive(inner, f"{pointer}/{at}", depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        yield "MYP005", pointer


@given(VALUES, st.sampled_from([0, MAX_DEPTH - 3, MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1]))
@example({"a": {"b": "c"}}, MAX_DEPTH - 2)
@example({"a": {"b": "c"}}, MAX_DEPTH - 1)
@example({"\ud800": {"b": "\ud800"}}, 0)
def test_faults_are_those_of_a_plain_walk(value: Any, depth: int) -> None:
    for _ in range(depth):
        value = [value]
    assert [(f.code, f.pointer) for f in faults(value)] == list(naive(value))


@pytest.mark.parametrize("how", ["", "compact", "1", "4"])
def test_json_is_written_as_the_standard_library_writes_it(how: str) -> None:
    layout: Any = (
        {"separators": (",", ":")} if how == "compact" else {"indent": int(how or 0) or None}
    )
    floats = [1e16, 1e-5, 0.0001, 0.00012, 9.9e-5, 12.00001, -0.0, 1e15, 5e-324, 2.5]
    texts = ['é\x7f\x1f\u2028"\\/\b\n', "a\ud800", "3e5", "🙂"]
    for value in (
        {},
        [],
        [[], {}, {"a": [{}]}],
        10**30,
        True,
        None,
        *floats,
        *texts,
        [floats, texts],
    ):
        assert json_text(value, how) == json.dumps(value, ensure_ascii=False, **layout)
