"""Calls that are told while they are written."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mypt_infer.decode.compile.call_graph import body_of
from mypt_infer.serve.call_stream import CallListStream, CallStream
from mypt_spec.bodies.json_body import KEYS

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
KEY = st.text() | st.sampled_from(["name", "name_", "arguments", "parameters"])


@pytest.mark.parametrize("kind", ["arguments", "call", *KEYS])
@given(
    arguments=st.dictionaries(KEY, JSON, max_size=4),
    name=st.text(min_size=1),
    cuts=st.lists(st.integers(0, 80), max_size=6),
)
def test_pieces_are_the_whole_call(
    kind: str, arguments: dict[str, Any], name: str, cuts: list[int]
) -> None:
    """However the body is cut: the name comes first, and the pieces are its arguments."""
    body = body_of(kind, name, arguments, re.compile(r"(?!)")) + "\n"
    call = CallStream(kind, name if kind == "arguments" else "")
    told, places = "", sorted({0, len(body), *(c for c in cuts if c < len(body))})
    for begin, end in pairwise(places):
        piece = call.push(body[begin:end])
        assert not piece or call.name == name
        told += piece
    assert call.name == name
    assert json.loads(told) == arguments


@given(
    calls=st.lists(
        st.tuples(st.text(min_size=1), st.dictionaries(KEY, JSON, max_size=3), st.text()),
        min_size=1,
        max_size=3,
    ),
    cuts=st.lists(st.integers(0, 200), max_size=8),
)
def test_pieces_are_the_whole_list(
    calls: list[tuple[str, dict[str, Any], str]], cuts: list[int]
) -> None:
    """Each call begins with its name and id, before the next one, however the body is cut."""
    items = [
        ({"id": ident} if ident else {})
        | {"type": "function", "function": {"name": name, "arguments": arguments}}
        for name, arguments, ident in calls
    ]
    body, stream = json.dumps(items, ensure_ascii=False), CallListStream()
    places = sorted({0, len(body), *(c for c in cuts if c < len(body))})
    found: list[list[Any]] = []
    open_ = False
    for begin, end in pairwise(places):
        for told in stream.push(body[begin:end]):
            if told.name:
                assert not open_
                found.append([told.name, told.id, ""])
                open_ = True
            found[-1][2] += told.text
            open_ = open_ and not told.ended
    assert not open_
    assert [(n, json.loads(text), i) for n, i, text in found] == calls
