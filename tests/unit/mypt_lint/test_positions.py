"""Columns on a line: the hard characters, deep nesting, repeated keys, broken lines."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from mypt_lint.places.json_items import json_items
from mypt_lint.places.positions import Places, StringColumns
from tests.support.examples import either
from tests.support.growth import in_proportion


def source(
    line: str, pointer: str, span: tuple[int, int] | None = None, on_key: bool = False
) -> str:
    start, end = Places(line).locate(pointer, span, on_key=on_key)
    return line[start:end]


def test_items_in_order() -> None:
    line = ' {"a": [1, {"b/~": null}], "c": "x"} '
    items = [(item.kind, item.pointer, line[item.start : item.end]) for item in json_items(line)]
    assert items == [
        ("key", "/a", '"a"'),
        ("value", "/a/0", "1"),
        ("key", "/a/1/b~1~0", '"b/~"'),
        ("value", "/a/1/b~1~0", "null"),
        ("value", "/a/1", '{"b/~": null}'),
        ("value", "/a", '[1, {"b/~": null}]'),
        ("key", "/c", '"c"'),
        ("value", "/c", '"x"'),
        ("value", "", line.strip()),
    ]


@pytest.mark.parametrize(
    "text", ["[]", "{}", "[[], {}]", '[{"a": []}, 0]', "3", '""', "\ufeff[1]", "\t\r\n null "]
)
def test_empty_containers_and_bare_values(text: str) -> None:
    *_, last = json_items(text)
    assert (last.kind, last.pointer) == ("value", "")
    assert text[last.start : last.end] == text.strip("\ufeff\t\r\n ")


def test_pointer_escapes_and_escaped_keys() -> None:
    line = r'{"a\/b~c": {"": 1, "\u00fc": 2, "0": 3}}'
    assert source(line, "/a~1b~0c/") == "1"
    assert source(line, "/a~1b~0c/ü") == "2"
    assert source(line, "/a~1b~0c/0") == "3"
    assert source(line, "/a~1b~0c/ü", on_key=True) == r'"\u00fc"'


@pytest.mark.parametrize(
    ("literal", "span", "expected"),
    [
        ('"a👍🏽b"', (1, 3), "👍🏽"),
        ('"e\u0301x"', (1, 2), "\u0301"),
        (r'"a\ud83d\ude00b"', (1, 2), r"\ud83d\ude00"),
        (r'"a\ud83d\ude00b"', (2, 3), "b"),
        (r'"\uD83D\uDE00\u00fc!"', (1, 2), r"\u00fc"),
        (r'"\ud83dx"', (1, 2), "x"),
        (r'"\ude00\ud83dx"', (2, 3), "x"),
        (r'"\ud83d\ud83d\ude00x"', (1, 2), r"\ud83d\ude00"),
        (r'"a\/b\"c\\n\n"', (1, 2), r"\/"),
        (r'"a\/b\"c\\n\n"', (3, 4), r"\""),
        (r'"a\/b\"c\\n\n"', (5, 7), r"\\n"),
        (r'"a\/b\"c\\n\n"', (7, 8), r"\n"),
        (r'"\u003cmyPT_user>"', (0, 11), r"\u003cmyPT_user>"),
        ('"abc"', (1, 99), "bc"),
        ('"abc"', (99, 100), ""),
        ('"abc"', (-5, 1), "a"),
        ('"abc"', (2, 1), ""),
        ('""', (0, 1), ""),
    ],
)
def test_span_in_a_string(literal: str, span: tuple[int, int], expected: str) -> None:
    line = '{"k": [' + literal + "]}"
    assert source(line, "/k/0", span) == expected
    start, end = StringColumns(literal, 0, len(literal)).of(span)
    assert literal[start:end] == expected


def test_whole_values_and_spans_on_other_kinds() -> None:
    line = '{"s": "x", "n": -1.5e3, "o": {"a": [NaN, Infinity, -Infinity]}}'
    assert source(line, "/s") == '"x"'
    assert source(line, "/n", (0, 1)) == "-1.5e3"
    assert source(line, "/o/a/0") == "NaN"
    assert source(line, "/o/a/2") == "-Infinity"
    assert source(line, "") == line
    assert source(line, "/s", on_key=True) == '"s"'
    assert source(line, "/o/a/1", on_key=True) == "Infinity"


def test_missing_pointers_fall_back_to_the_nearest_ancestor() -> None:
    line = '{"messages": [{"role": "user"}], "s": "text"}'
    assert source(line, "/messages/0/content") == '{"role": "user"}'
    assert source(line, "/messages/0/content", (0, 3)) == '{"role": "user"}'
    assert source(line, "/messages/7/content", on_key=True) == '[{"role": "user"}]'
    assert source(line, "/s/0/1", (0, 1)) == '"text"'
    assert source(line, "/messages/00") == '[{"role": "user"}]'
    assert source(line, "/x") == line
    assert source(line, "no pointer") == line


def test_duplicate_keys() -> None:
    line = '{"a": {"b": 1}, "a": {"c": 2}, "a": {"d": 3}}'
    items = [item for item in json_items(line) if item.pointer == "/a"]
    assert [(item.kind, item.duplicate) for item in items] == [
        ("key", False), ("value", False), *[("key", True), ("value", True)] * 2,
    ]  # fmt: skip
    assert source(line, "/a") == '{"d": 3}'
    assert source(line, "/a/b") == '{"d": 3}'
    assert Places(line).locate("/a", on_key=True) == (16, 19)
    escaped = r'{"a": 1, "\u0061": 2}'
    assert source(escaped, "/a", on_key=True) == r'"\u0061"'
    assert source(escaped, "/a") == "2"


@pytest.mark.parametrize(
    ("line", "pointer", "expected"),
    [
        ("", "", ""),
        ("   ", "/a", ""),
        ("  not json ", "/a", "not json"),
        ('{"a": 1, "b": ', "/a", "1"),
        ('{"a": 1, "b": ', "/b", '{"a": 1, "b":'),
        ('{"a": "open', "/a", '{"a": "open'),
        ('{"a": "\\', "", '{"a": "\\'),
        ('{"a" 1}', "", '{"a" 1}'),
        ("[1 2]", "/0", "1"),
        ("[1,]", "/0", "1"),
        ("{} trailing", "", "{}"),
        (r'{"\u12": 1}', r"/\u12", "1"),
    ],
)
def test_broken_lines(line: str, pointer: str, expected: str) -> None:
    assert source(line, pointer) == expected


def test_on_key_without_a_value() -> None:
    assert source('{"a": 1, "b": ', "/b", on_key=True) == '"b"'


@pytest.mark.parametrize(("open_", "close", "step"), [("[", "]", "/0"), ('{"a":', "}", "/a")])
def test_deep_nesting(open_: str, close: str, step: str) -> None:
    """Where it is quadratic, 100,000 levels take minutes."""

    def look(depth: int) -> None:
        line = open_ * depth + "0" + close * depth
        assert sum(1 for _ in json_items(line)) == depth * (1 if step == "/0" else 2) + 1
        places = Places(line)
        assert line[slice(*places.locate(step * depth))] == "0"
        assert places.locate(step * (depth + 5)) == places.locate(step * depth)
        assert places.locate("") == (0, len(line))

    assert in_proportion(look, either(4_000, 25_000))


def test_deep_nesting_is_linear_in_memory() -> None:
    depth = either(6_000, 20_000)
    line = '{"a":' * depth + "0" + "}" * depth
    tracemalloc.start()
    try:
        assert Places(line).locate("/a") == (5, len(line) - 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < depth * 2000


def test_deep_nesting_that_never_closes() -> None:
    def look(depth: int) -> None:
        line = "[" * depth
        assert list(json_items(line)) == []
        assert Places(line).locate("/0/0") == (0, len(line))

    assert in_proportion(look, either(5_000, 25_000))


def test_long_strings_of_escapes() -> None:
    def look(count: int) -> None:
        text = '\n"\\😀' * count
        line = json.dumps({"a": text, "b": 1})
        assert source(line, "/b") == "1"
        assert source(line, "/a", (len(text) - 1, len(text))) == r"\ud83d\ude00"

    assert in_proportion(look, either(5_000, 50_000))
