"""No text with a finding passes the prefilters, with the automaton or without."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mypt_records.checks
import mypt_records.written
from mypt_records.checks.control import strings_of
from mypt_records.prefilter import PREFILTERS, TextFilter, _compile
from mypt_records.shapes import read
from mypt_spec.findings import RULES

KEY = "aB3dE6gH9j" * 4
TEXTS = [
    "Hi", "", "\0", "task-force", "noinput", " <No Output>\n", "{{name}}", "{query}", "a {{ b }}", "${input}", "\u2003[f(a=1)]", "[f(a=1)]",
    "x [f(a=1)]", "<think>", "<tool_call>", "<tool_response>4", "na " * 200, "na " * 20, "As an AI language model", "as a LARGE Language Model",
    "sk-" + KEY, "ghp_" + KEY[:36], "hf_" + "aBcD" * 9, "github_pat_" + KEY * 2, "-----BEGIN PRIVATE KEY-----", "caf\xc3\xa9", "It\xe2\u20ac\u2122s",
    "\u0130", "a\u200bb", "\u200d", "\U0001f469\u200d\U0001f4bb", "\u0645\u06cc\u200c\u062e\u0648", "\ufffd", "\x80", "\u2026", "\xef\xbb\xbf",
    "?\t", "!\u00a0", '{\u2028"q": ', '{"n": "f", "arguments": {}}', "\U000e0041", "\ud800", "a\0b", "\u212anow", "task:\u0130nput", *strings_of("formats").formats, *strings_of("ends").formats,
]  # fmt: skip
PIECES = st.sampled_from(TEXTS) | st.text(max_size=3)


@pytest.fixture(autouse=True)
def _long_file() -> Iterator[None]:
    """So much text that the automaton is built."""
    with mock.patch("mypt_records.prefilter._scanned", 1 << 40):
        yield


@cache
def text_filter() -> TextFilter:
    return TextFilter(lambda code: True)


def expected(texts: list[str]) -> list[int]:
    return [
        i
        for i, text in enumerate(texts)
        if any(len(text) >= one.least and one.may_find(text) for one in PREFILTERS)
    ]


@given(st.lists(st.lists(PIECES, max_size=3).map("".join), max_size=5))
def test_doubtful_texts_are_those_that_functions_name(texts: list[str]) -> None:
    assert text_filter().doubtful(texts) == expected(texts)


def test_each_sample_is_found_alone_and_among_others() -> None:
    for texts in (TEXTS, *([text] for text in TEXTS), [f"{text}\n" for text in TEXTS]):
        assert text_filter().doubtful(texts) == expected(texts), texts
    assert len(expected(TEXTS)) > 120


@given(st.lists(st.lists(PIECES, max_size=3).map("".join), max_size=5))
def test_a_check_sees_each_text_that_its_functions_name(texts: list[str]) -> None:
    found = text_filter().by_code([*texts, *TEXTS])
    for one, i in product(PREFILTERS, range(len(texts) + len(TEXTS))):
        if one.may_find([*texts, *TEXTS][i]):
            assert all(i in found[code] for code in one.codes)
    assert any(len(numbers) < len(TEXTS) / 4 for numbers in found.values())


def test_without_the_package_all_functions_are_asked() -> None:
    with mock.patch.dict(sys.modules, ahocorasick_rs=None):
        _compile.cache_clear()
        alone = TextFilter(lambda code: True)
        with mock.patch.object(TextFilter, "_places", side_effect=AssertionError):
            assert alone.doubtful(TEXTS) == expected(TEXTS)
    _compile.cache_clear()


@pytest.mark.parametrize("wanted", sorted({code for one in PREFILTERS for code in one.codes})[:8])
def test_a_filter_of_some_rules_asks_for_them_alone(wanted: str) -> None:
    """All share one automaton, which takes 14 MB."""
    one = TextFilter(lambda code: code == wanted)
    assert one._compiled is TextFilter(lambda code: code != wanted)._compiled
    asked = [p for p in PREFILTERS if not p.codes or wanted in p.codes]
    assert one.doubtful(TEXTS) == [
        i
        for i, text in enumerate(TEXTS)
        if any(len(text) >= p.least and p.may_find(text) for p in asked)
    ]


def chats() -> list[tuple[str, Any]]:
    """Returns the Bad records of rules about chats, with the code of the rule."""
    found = []
    for code, rule in RULES.items():
        bad = rule.doc.partition("## Bad")[2].partition("## Good")[0]
        for block in re.findall(r"```jsonl records=openai[^\n]*\n(.*?)```", bad, re.DOTALL):
            found += [(code, json.loads(line)) for line in block.splitlines()]
    return found


def test_spans_of_findings_are_in_doubtful_texts() -> None:
    """What a rule marks inside of a text, a prefilter of the rule must name."""
    marked = 0
    for code, record in chats():
        chat = read(record, "openai")
        texts = {text.at: text.text for _, text in chat.texts()}
        for finding in mypt_records.checks.findings(chat):
            if finding.span is not None and finding.pointer in texts:
                alone = TextFilter(lambda other, code=finding.code: other == code)
                assert alone.doubtful([texts[finding.pointer]]), (code, finding)
                marked += 1
    assert marked >= 5
