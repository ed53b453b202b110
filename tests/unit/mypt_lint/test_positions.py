"""Columns on a line: the hard characters, deep nesting, repeated keys, broken lines."""

from __future__ import annotations

import json

import pytest

from mypt_lint.places.positions import Places, StringColumns
from mypt_spec.bodies.strict_json import MAX_DEPTH
from tests.support.examples import either
from tests.support.growth import in_proportion


def source(
    line: str, pointer: str, span: tuple[int, int] | None = None, on_key: bool = False
) -> str:
    start, end = Places(line).locate(pointer, span, on_key=on_key)
    return line[start:end]


@pytest.mark.parametrize(
    "text", ["[]", "{}", "[[], {}]", '[{"a": []}, 0]', "3", '""', "\ufeff[1]", "\t\r\n null "]
)
def test_empty_containers_and_bare_values(text: str) -> None:
    assert source(text, "") == source(text, "/x") == text.strip("\ufeff\t\r\n ")


def test_pointer_escapes_and_escaped_keys() -> None:
    line = r'{"a\/b~c": {"": 1, "\u00fc": 2, "0": 3}}'
    assert source(line, "/a~1b~0c/") == "1"
    assert source(line, "/a~1b~0c/ü") == "2"
    assert source(line, "/a~1b~0c/0") == "3"
    assert source(line, "/a~1b~0c/ü", on_key=True) == r'"\u00fc"'
    alike = '{"/": 1, "~1": 2, "~0": 3}'
    assert [source(alike, pointer) for pointer in ("/~1", "/~01", "/~00")] == ["1", "2", "3"]


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
    assert source(line, "/a") == '{"d": 3}'
    assert source(line, "/a/b") == '{"d": 3}'
    assert Places(line).locate("/a", on_key=True) == (16, 19)
    escaped = r'{"a": 1, "\u0061": 2}'
    assert source(escaped, "/a", on_key=True) == r'"\u0061"'
    assert source(escaped, "/a") == "2"


@pytest.mark.parametrize(
    "line",
    ["", "   ", "  not json ", '{"a": 1, "b": ', '{"a": "open', '{"a": "\\', '{"a" 1}', "[1 2]"],
)
@pytest.mark.parametrize("pointer", ["", "/a", "/b", "/1"])
def test_what_is_not_json_is_one_place(line: str, pointer: str) -> None:
    assert source(line, pointer, (0, 1), on_key=True) == line.strip()


@pytest.mark.parametrize("number", ["9" * 5000, "1e999", "NaN"])
def test_numbers_that_no_tool_reads_have_a_place(number: str) -> None:
    line = f'{{"a": [{number}], "b": {number}, "c": "x"}}'
    assert source(line, "/a/0") == source(line, "/b") == number
    assert source(line, "/c", (0, 1)) == "x"


@pytest.mark.parametrize(("open_", "close", "step"), [("[", "]", "/0"), ('{"a":', "}", "/a")])
def test_deep_nesting(open_: str, close: str, step: str) -> None:
    """A record is not read where it nests deeper than 200 levels; such a line is one place."""
    line = open_ * MAX_DEPTH + "0" + close * MAX_DEPTH
    assert source(line, step * MAX_DEPTH) == source(line, step * (MAX_DEPTH + 5)) == "0"
    assert source(line, "") == line
    deep = open_ * 100_000
    assert source(deep, step) == deep
    assert source(deep + "0" + close * 100_000, step * 3).count("0") == 1


def test_long_strings_of_escapes() -> None:
    def look(count: int) -> None:
        text = '\n"\\😀' * count
        line = json.dumps({"a": text, "b": 1})
        assert source(line, "/b") == "1"
        assert source(line, "/a", (len(text) - 1, len(text))) == r"\ud83d\ude00"

    assert in_proportion(look, either(5_000, 50_000))
