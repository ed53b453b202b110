"""For any value, however it was written: each pointer is found at its source, each span at that of
its characters.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mypt_lint.places.json_items import json_items
from mypt_lint.places.positions import Places
from tests.support.maker import any_json, drawn

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
    values = [item.pointer for item in json_items(line) if item.kind == "value"]
    assert sorted(values) == sorted(pointers)


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
    for item in json_items(text):
        assert 0 <= item.start < item.end <= len(text)


@given(VALUES, st.data())
def test_a_cut_line_never_raises(value: Any, data: st.DataObject) -> None:
    line = json.dumps(value)
    cut = line[: data.draw(st.integers(0, len(line)))]
    known = {item.pointer for item in json_items(line)}
    assert {item.pointer for item in json_items(cut)} <= known


class Nothing:
    def find(self, tokens: list[str]) -> None:
        return None


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "0", "~"]), VALUES), max_size=4) | VALUES,
    st.sampled_from(["", "\ufeff ", " "]),
    st.lists(st.sampled_from(["a", "b", "0", "1", "00", "~0", "-"]), max_size=3),
    st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9)),
    st.booleans(),
    st.sampled_from(["", "", " ", "}", ",x"]),
)
def test_looking_at_members_is_scanning(
    value: Any, before: str, tokens: list[str], span: tuple[int, int] | None, on_key: bool, after: str
) -> None:  # fmt: skip
    """Keys that occur twice, lines that are no JSON, and pointers that lead nowhere, too."""
    line = json.dumps(value)
    if isinstance(value, list) and all(isinstance(item, tuple) for item in value):
        pairs = (f"{json.dumps(key)}: {json.dumps(inner)}" for key, inner in value)
        line = f"{{{', '.join(pairs)}}}"
    line = before + line + after
    pointer = "".join("/" + token for token in tokens)
    scanned = Places(line)
    scanned._members = Nothing()  # type: ignore[assignment]
    assert Places(line).locate(pointer, span, on_key=on_key) == scanned.locate(
        pointer, span, on_key=on_key
    )
