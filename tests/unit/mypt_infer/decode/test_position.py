"""Where the beginning of a JSON text stops, read at once and piece by piece."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mypt_infer.decode.llguidance.position import Position, Reading


def where(text: bytes) -> Position:
    return Reading().on(text).position(text)


VALUES = st.recursive(
    st.none() | st.integers() | st.text('ab"\\{}[],: ü', max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text('ab"\\:', max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=60)
@given(VALUES, st.lists(st.integers(0, 60), max_size=5), st.integers(0, 80))
def test_pieces_are_read_as_the_whole(value: Any, cuts: list[int], end: int) -> None:
    text = json.dumps(value, ensure_ascii=False).encode()[:end]
    whole, pieces = Reading().on(text), Reading()
    for cut in sorted(cuts):
        pieces = pieces.on(text[:cut])
    assert pieces.on(text) == whole
    assert pieces.on(text).position(text) == where(text)


def test_keys_are_those_of_the_open_object() -> None:
    text = rb'{"a": {"x": 1}, "b\"": [{}, {"y": 2, "z'
    assert Reading().on(text).keys == (b"y",)
    assert where(text).key
    text = rb'{"a": {"x": 1}, "b\"": [{}], "c'
    assert Reading().on(text).keys == (b"a", rb"b\"")
    assert where(text[:24]) == where(rb'{"a": {"x": 1}, "b\"": ')
