"""`line[column - 1 : end_column - 1]` is the offending source, however the line spells its
characters.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt_lint.check.checker import Checker

CHECKER = Checker(mypt_spec.dialect("mypt"))
# Raw and escaped unicode, emoji (one and several code points), combining and wide characters, and
# what JSON must escape.
PIECES = [
    "a",
    " ",
    "ü",
    "e\u0301",
    "😀",
    "👩‍🚀",
    "漢",
    "한",
    "\u2028",
    '"',
    "\\",
    "\n",
    "\t",
    "\x7f",
    "<",
]
AROUND = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
TAG = "</myPT_user>"


def spelled(draw: st.DrawFn, text: str) -> str:
    """The inside of a JSON string, each character raw where that is allowed, or escaped, at random."""
    out = ""
    for char in text:
        units = char.encode("utf-16-be")
        escaped = "".join(f"\\u{units[i]:02x}{units[i + 1]:02X}" for i in range(0, len(units), 2))
        plain, ascii_only = (json.dumps(char, ensure_ascii=flag)[1:-1] for flag in (False, True))
        out += draw(st.sampled_from([plain, ascii_only, escaped]))
    return out


@st.composite
def lines(draw: st.DrawFn) -> tuple[str, str]:
    """A line with a tag in a user's text, and the source of the tag."""
    before, tag, after = (spelled(draw, text) for text in (draw(AROUND), TAG, draw(AROUND)))
    other = spelled(draw, draw(AROUND))
    space = draw(st.sampled_from(["", " ", "\t"]))
    return (
        f'{{"_note":{space}"{other}", "system": "S",{space} "messages": [{{"role": "user", "content":{space}"{before}{tag}{after}"}}, '
        f'{{"role": "assistant", "content": "A"}}]}}'
    ), tag


@given(lines(), st.sampled_from(["", "\r"]))
def test_a_column_range_is_the_source_of_what_is_wrong(case: tuple[str, str], end: str) -> None:
    line, tag = case
    raw = (line + end).encode()
    (item,) = [i for i in CHECKER.line(raw, row=7, filename="f") if i.finding.code == "MYP301"]
    source = line[item.column - 1 : item.end_column - 1]
    assert (item.row, item.end_row, source) == (7, 7, tag)
    assert json.loads(f'"{source}"') == TAG


@given(lines(), st.sampled_from([("role", "robot"), ("content", 7), ("x", "y"), ("content", None)]))
def test_a_value_or_a_key_is_found_whole(case: tuple[str, str], change: tuple[str, Any]) -> None:
    line, tag = case
    key, value = change
    line = line.replace(tag, "").replace(
        '{"role": "assistant", "content": "A"}',
        json.dumps({"role": "assistant", "content": "A"} | {key: value}),
    )
    found = [
        i
        for i in CHECKER.line(line.encode(), row=2, filename="f")
        if i.finding.pointer == f"/messages/1/{key}"
    ]
    assert found
    for item in found:
        assert json.loads(line[item.column - 1 : item.end_column - 1]) == (
            key if key == "x" else value
        )
