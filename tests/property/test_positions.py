"""For any value, however it was written: each pointer is found at its source, each span at that of
its characters.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.places.positions import Places
from mypt_spec.bodies.strict_json import value_at
from tests.support.lines import tagged_lines
from tests.support.maker import any_json, drawn
from tests.support.strategies import DIALECTS

KEYS = ["", "/", "~", "~1", "0", "a/b", "ü"]
STRINGS = ['a\\"/', "\n\t😀", "e\u0301ü", "\u2028\x00<", "\ud800", "~01/", ""]
VALUES = drawn(lambda random: any_json(random, KEYS, STRINGS))
COMMAS = st.sampled_from([",", ", ", " \t, "])
SEPARATORS = st.tuples(COMMAS, st.sampled_from([":", ": ", "\t:\r "]))


def walk(value: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    yield pointer, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from walk(inner, pointer + "/" + key.replace("~", "~0").replace("/", "~1"))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from walk(inner, f"{pointer}/{index}")


@given(VALUES, st.booleans(), SEPARATORS, st.data())
def test_every_pointer_and_span(
    value: Any, ascii_only: bool, separators: tuple[str, str], data: st.DataObject
) -> None:
    line = json.dumps(value, ensure_ascii=ascii_only, separators=separators)
    if data.draw(st.booleans()):
        line = line.replace("/", "\\/")
    places = Places(line)
    pointers = dict(walk(value))
    for pointer, inner in pointers.items():
        start, end = places.locate(pointer)
        assert repr(json.loads(line[start:end])) == repr(inner)
        if isinstance(inner, str):
            a, b = sorted(data.draw(st.tuples(*[st.integers(0, len(inner))] * 2)))
            start, end = places.locate(pointer, (a, b))
            assert json.loads('"' + line[start:end] + '"') == inner[a:b]


@given(st.text(max_size=8), st.data())
def test_every_escape_may_be_written_as_u(text: str, data: st.DataObject) -> None:
    """Each character written raw, as `\\uXXXX` or as a pair, at random: spans stay exact."""
    body = ""
    for char in text:
        units = char.encode("utf-16-be")
        pairs = range(0, len(units), 2)
        escaped = "".join(f"\\u{units[at]:02X}{units[at + 1]:02x}" for at in pairs)
        plain = json.dumps(char, ensure_ascii=False)[1:-1]
        body += data.draw(st.sampled_from([plain, escaped]))
    line = '{"\\u006b": "' + body + '"}'
    a, b = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    start, end = Places(line).locate("/k", (a, b))
    assert json.loads('"' + line[start:end] + '"') == text[a:b]


@given(
    st.text() | st.text(alphabet='{}[]",:\\u0123d8e-. tfnNaI~/\ud83d\ufeff'),
    st.text(alphabet="/~01a") | st.text(),
    st.none() | st.tuples(st.integers(-9, 99), st.integers(-9, 99)),
    st.booleans(),
)
def test_any_text_gives_a_place(
    text: str, pointer: str, span: tuple[int, int] | None, on_key: bool
) -> None:
    start, end = Places(text).locate(pointer, span, on_key=on_key)
    assert 0 <= start <= end <= len(text)


@given(VALUES, st.data())
def test_a_line_that_is_cut_is_one_place(value: Any, data: st.DataObject) -> None:
    line = json.dumps([value])
    cut = line[: data.draw(st.integers(0, len(line) - 1))]
    for pointer, _ in walk([value]):
        assert cut[slice(*Places(cut).locate(pointer))] == cut.strip()


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "0", "~"]), VALUES), min_size=1, max_size=4),
    st.sampled_from(["", "\ufeff ", " "]),
    st.sampled_from(["a", "b", "0", "~"]),
)
def test_of_a_key_that_occurs_again_the_last_value_counts(
    pairs: list[tuple[str, Any]], before: str, key: str
) -> None:
    """The place of the key is that of the second one."""
    members = [(json.dumps(name), json.dumps(inner)) for name, inner in pairs]
    line = before + f"{{{', '.join(f'{name}: {inner}' for name, inner in members)}}}"
    places, pointer = Places(line), "/" + key.replace("~", "~0")
    here = [number for number, (name, _) in enumerate(pairs) if name == key]
    if not here:
        assert line[slice(*places.locate(pointer))] == line.strip("\ufeff ")
        return
    ahead = [
        sum(len(f"{name}: {inner}, ") for name, inner in members[:n]) for n in range(len(pairs))
    ]
    at = len(before) + 1
    start = at + ahead[here[-1]] + len(members[here[-1]][0]) + 2
    assert places.locate(pointer) == (start, start + len(members[here[-1]][1]))
    again = here[min(1, len(here) - 1)]
    start = at + ahead[again]
    assert places.locate(pointer, on_key=True) == (start, start + len(members[again][0]))


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_a_finding_points_at_what_the_record_has(name: str, data: st.DataObject) -> None:
    line = data.draw(tagged_lines(name))
    record = json.loads(line)
    for item in Checker(mypt_spec.dialect(name)).line(line, row=2, filename="f"):
        assert value_at({"": record}, "/" + item.finding.pointer) is not None, item.finding
