"""Invariant 4: any input has findings: never an exception, never a hang."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt_cli.jsonl.layout import MAGIC
from mypt_lint.check.checker import Checker
from mypt_lint.check.texts import check_generation, check_text
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_lint.run.runner import check_bytes
from mypt_spec import Dialect, Finding, Limits
from mypt_spec.damage.near_miss import _candidates, beginnings, near_miss
from mypt_spec.episode import Episode, Message, Part
from tests.support.strategies import (
    ANY_JSON,
    DIALECTS,
    almost_records,
    any_episodes,
    any_text,
    episodes,
    lines_of,
    mutated,
    records,
)

ALL = mypt_spec.dialects()
LIMITS = Limits(phase=3, max_tokens=20, tools=frozenset({"x"}))
# of processor time for one nasty input: each takes a fraction of it, quadratic code takes minutes
SECONDS = 20.0


def everything(d: Dialect, record: object) -> None:
    """Through every stage that the findings allow; where there is no error, nothing may raise."""
    episode, findings = d.read(record)
    fine(findings)
    if episode is None:
        assert any(f.severity == "error" for f in findings)
        return
    found = d.validate(episode, limits=LIMITS)
    fine(found)
    assert d.validate(episode, phase=1) is not None
    if any(
        f.severity == "error"
        for f in findings + [f for f in found if f.code[3] != "4" and f.code != "MYP502"]
    ):
        for call in (d.serialize, d.encode, d.write):
            with suppress(ValueError):
                call(episode)
        return
    assert d.parse(d.serialize(episode))[0] == episode
    assert d.parse_ids(d.encode(episode).ids)[0] == episode
    assert d.read(d.write(episode))[0] == episode


def fine(findings: list[Finding]) -> None:
    for finding in findings:
        assert finding.message
        assert finding.span is None or 0 <= finding.span[0] <= finding.span[1]
        assert finding.pointer == "" or finding.pointer.startswith("/")


@pytest.mark.parametrize("name", ALL)
@given(ANY_JSON)
def test_any_value_as_a_record(name: str, value: Any) -> None:
    everything(mypt_spec.dialect(name), value)


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_almost_records(name: str, data: st.DataObject) -> None:
    everything(mypt_spec.dialect(name), data.draw(almost_records(name)))


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_blocks_in_any_order(name: str, data: st.DataObject) -> None:
    """Their tokens can be counted, wherever they are."""
    fine(mypt_spec.dialect(name).validate(data.draw(any_episodes(name)), limits=LIMITS))


@pytest.mark.parametrize("name", ['["x"]', "{}", "1", "null"])
def test_a_call_whose_name_is_no_text(name: str) -> None:
    call = Message("assistant", (Part("toolcall", f'{{"name": {name}}}'),))
    codes = [
        f.code for f in mypt_spec.dialect("mypt").validate(Episode("mypt", (call,)), limits=LIMITS)
    ]
    assert "MYP306" in codes
    assert "MYP313" not in codes


@pytest.mark.parametrize("value", [float("inf"), b"x", (1,), {1: 2}, {"messages": {}}, {"messages": [None]}, {"messages": [{1: 2, "role": []}]}, object(), {"system": "s", "messages": [{"role": "user", "content": 10**5000}]}, {10**5000: [1]}, {"messages": [{"role": "user", "content": "x", 10**5000: []}]}, {"messages": [], "tools": [{"name": "x", 10**5000: 1}]}])  # fmt: skip
@pytest.mark.parametrize("name", ALL)
def test_values_that_are_no_json(name: str, value: Any) -> None:
    everything(mypt_spec.dialect(name), value)


@pytest.mark.parametrize("name", ALL)
@given(st.data())
def test_any_text(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    text = data.draw(
        st.text() | any_text(name) | st.text(st.characters(categories=["Cs", "Zs", "Cc"]))
    )
    episode, findings = d.parse(text)
    fine(findings)
    assert (episode is None) == any(f.severity == "error" for f in findings)
    assert d.check_prefix(text).state in d.automaton.states
    located = [
        *check_text(Checker(d), text),
        *check_generation(Checker(d), text),
        *check_generation(Checker(d), text, prompt=text),
    ]
    assert all(item.finding.code != "MYP901" for item in located)


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_any_cut_or_pasted_text(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    text = d.serialize(data.draw(episodes(name)))
    a, b = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    assert not d.check_prefix(text[: d.lex(text)[-1].at.span[0]]).findings
    for cut in (text[:a], text[a:], text[:a] + text[b:], text[:b] + text[a:], text[a:b] + text):
        episode, findings = d.parse(cut)
        fine(findings)
        assert (episode is None) == any(f.severity == "error" for f in findings)
        check_generation(Checker(d), cut)
        check_text(Checker(d), cut)


@pytest.mark.parametrize("name", ALL)
@given(st.data())
def test_any_ids(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    special = st.sampled_from(
        [
            *d.tokenizer.special.values(),
            50256,
            d.tokenizer.vocab_size - 1,
            d.tokenizer.vocab_size,
            -1,
            2**31,
            2**63,
            -(10**30),
        ]
    )
    ids = data.draw(st.lists(special | st.integers(0, 50255) | st.integers(), max_size=30))
    episode, findings = d.parse_ids(ids)
    fine(findings)
    assert (episode is None) == any(f.severity == "error" for f in findings)
    assert all(f.span is None or f.span[1] <= len(ids) for f in findings)
    small = [i for i in ids if -(2**63) <= i < 2**63]
    assert (
        d.parse_ids(np.array(small, dtype=np.int64))
        == d.parse_ids(small)
        == d.parse_ids(iter(small))
    )


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_ids_with_a_token_changed(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    ids = d.encode(data.draw(episodes(name))).ids.tolist()
    at = data.draw(st.integers(0, len(ids) - 1))
    ids[at : at + data.draw(st.integers(0, 2))] = data.draw(
        st.lists(st.integers(0, d.tokenizer.vocab_size), max_size=2)
    )
    episode, findings = d.parse_ids(ids)
    fine(findings)
    assert (episode is None) == any(f.severity == "error" for f in findings)


@pytest.mark.parametrize("name", ALL)
@given(st.data())
def test_any_bytes_through_the_checker(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    legal = records(name).flatmap(lines_of) if name in DIALECTS else st.just(b'{"messages": []}')
    inside = ANY_JSON.map(lambda value: {"messages": value})
    line = data.draw(
        st.one_of(st.binary(), ANY_JSON.flatmap(lines_of), inside.flatmap(lines_of), mutated(legal))
    )
    for limits in (Limits(), LIMITS):
        for row in (1, 2):
            found = Checker(d, limits).line(line, row=row, filename="f")
            assert all(
                f.finding.code != "MYP901" and f.row == row and 1 <= f.column <= f.end_column
                for f in found
            )
    if not line.startswith(MAGIC):  # Parquet in memory is refused, as a whole
        check_bytes(Checker(d), line + b"\n" + line)
    Checker(d).generation_line(line, row=1, filename="f")


N = 100_000
NASTY: dict[str, str] = {
    "brackets": "[" * N,
    "closed brackets": "[" * N + "]" * N,
    "braces": '{"a":' * N,
    "brackets in a string": '"' + "[" * N + '"',
    "spaces": " " * 1_000_000,
    "letters": "a" * 1_000_000,
    "angles": "<" * 1_000_000,
    "angles and spaces": "< " * 500_000,
    "quotes": '"' * 1_000_000,
    "backslashes": "\\" * 1_000_000,
    "escaped quotes": '\\"' * 500_000,
    "newlines": "\n" * 1_000_000,
    "almost declarations": "- x" * 300_000,
    "dashes": "\n- " * 300_000,
    "near misses": "".join(f"<myPT_usr{i}>" for i in range(20_000)),
    "no near misses": "".join(f"<descriptor_{i}>" for i in range(50_000)),
    "endless near miss": "<myPT_" + "a " * 500_000,
    "digits": "1" * 1_000_000,
    "floats": "0." + "1" * 1_000_000,
    "hyphens": "en" + "-abc" * 250_000,
    "surrogates": "\ud800" * N,
}


def nasty(d: Dialect) -> dict[str, str]:
    tags = [t.shown for t in d.table.terminals.values()]
    own = {f"{N} of {tag}": tag * N for tag in tags[:5]}
    return (
        NASTY
        | own
        | {
            "all tags": "".join(tags) * (N // len(tags)),
            "two tags": (tags[0] + tags[-1]) * (N // 2),
        }
    )


def timed(call: Callable[..., Any], *args: Any, **more: Any) -> Any:
    start = time.process_time()
    out = call(*args, **more)
    assert time.process_time() - start < SECONDS
    return out


@pytest.mark.parametrize("which", [*NASTY, "all tags", "two tags"])
@pytest.mark.parametrize("name", DIALECTS)
def test_nasty_texts_take_no_time(name: str, which: str) -> None:
    d = mypt_spec.dialect(name)
    text = nasty(d)[which]
    timed(d.parse, text)
    timed(
        d.read,
        {
            "system": text,
            "language": text,
            "messages": [{"role": "user", "content": text}, {"role": text, text: "x"}],
        },
    )
    if "\ud800" not in text:
        timed(d.tokenizer.encode, text)


@pytest.mark.parametrize("which", [*NASTY, "all tags", "two tags"])
@pytest.mark.parametrize("name", DIALECTS)
def test_nasty_lines_take_no_time(name: str, which: str) -> None:
    """As a whole line, as content, as a body, as an unknown key, as metadata."""
    d = mypt_spec.dialect(name)
    whole = nasty(d)[which]
    text = whole[: N // 4]
    checker = Checker(d, Limits(max_tokens=100))
    prover = CleanFilter(checker)
    record: dict[str, Any] = {
        "system": "s\n" + text,
        "messages": [
            {"role": "user", "content": text},
            {"role": "assistant_toolcall", "name": text, "arguments": {"k": text, text: [text]}},
            {"role": "toolresult", "name": text, "content": text},
            {"role": "assistant", "content": text, "cite": text},
        ],
        "_m": {text: text},
    }
    for line in (
        whole.encode("utf-8", "replace"),
        json.dumps(record).encode(),
        json.dumps(record | {text: 1}).encode(),
    ):
        timed(prover.clean, line)
        found = timed(checker.line, line, row=1, filename="f")
        assert all(f.finding.code != "MYP901" for f in found)


@pytest.mark.parametrize(
    "line",
    [
        '{"messages": [' + ", ".join(["{}"] * 10_000) + "]}",
        '{"messages": [' + ", ".join(['{"role": "x"}'] * 10_000) + "]}",
        '{"messages": [], ' + ", ".join(f'"k{i}": 1' for i in range(10_000)) + "}",
        '{"messages": [' + ", ".join(["NaN"] * 20_000) + "]}",
        '{"messages": [' + ", ".join(['{"a": 1, "a": 2}'] * 10_000) + "]}",
        '{"system": "s", "messages": [' + ", ".join(['{"role": "user", "content": ""}'] * 5_000) + "]}",
        '{"system": "s", "messages": [' + ", ".join(['{"role": "user", "content": " "}, {"role": "assistant", "content": "<myPT_usr>"}'] * 5_000) + "]}",
        '{"system": "s", "messages": [' + ", ".join(['{"role": "assistant_toolcall", "name": "a", "arguments": "{"}'] * 5_000) + "]}",
        '{"system": "s", "messages": [{"role": "toolresult", "name": "a", "content": [' + ", ".join(['"<myPT_user>"'] * 10_000) + "]}]}",
        '{"system": "s", "messages": [{"role": "user", "content": "' + r"\u003cmyPT_user>\n" * 20_000 + '"}]}',
        '{"system": "s", "messages": [{"role": "user", "content": "' + r"<myPT_usr>\n" * 20_000 + '"}]}',
        # All pointers below one long key are quadratic in the line.
        '{"_' + "k" * 200_000 + '": [' + ", ".join(["0"] * 10_000) + '], "messages": []}',
        '{"_' + "k" * 200_000 + '": [' + ", ".join(["NaN"] * 10_000) + '], "messages": []}',
        '{"messages": [{"role": "toolresult", "name": "a", "content": {"' + "k" * 200_000 + '": [' + ", ".join(['"<myPT_user>"'] * 10_000) + "]}}]}",
    ],
    ids=lambda line: line[:60],
)  # fmt: skip
def test_a_line_with_very_many_faults(line: str) -> None:
    found = timed(Checker(mypt_spec.dialect("mypt")).line, line.encode(), row=1, filename="f")
    assert found
    assert all(f.finding.code != "MYP901" for f in found)
    assert sum(len(f.finding.pointer) + len(f.finding.message) for f in found) < 10 * len(line)


@pytest.mark.parametrize("name", ALL)
def test_patterns_are_linear(name: str) -> None:
    """Twice the text, about twice the time: for every pattern over content, on text made to make it
    go back.
    """
    table = mypt_spec.dialect(name).table
    patterns: list[re.Pattern[str]] = [
        table.literals,
        table.lexer,
        table.id_lexer,
        _candidates(table.tags),
    ]
    patterns += [regex for _, regex in beginnings(table.tags)]
    patterns += [table.tool_names] if table.tool_names else []
    seeds = [
        "<",
        "< ",
        "</ ",
        "<a ",
        "<a" * 3 + " ",
        "<|a",
        "<myPT_",
        "<myPT_user",
        " ",
        "\t",
        "- ",
        "\n- ",
        "\n- a.",
        "\n \t-`a",
        "a-",
        "\ud800",
        "<a. -",
    ]
    for pattern in patterns:
        for seed in seeds:
            small, large = (seed * (size // len(seed)) for size in (20_000, 80_000))
            quick = _seconds(pattern.findall, small)
            slow = _seconds(pattern.findall, large)
            assert slow < 0.02 or slow < 12 * quick, (pattern.pattern, seed, quick, slow)
    for seed in seeds:
        assert _seconds(near_miss, seed * 20_000, table) < 10


def _seconds(call: Callable[..., Any], *args: Any) -> float:
    best = 1e9
    for _ in range(2):
        start = time.process_time()
        call(*args)
        best = min(best, time.process_time() - start)
    return best
