"""Invariant 4: any input has findings: never an exception, never a hang."""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import mypt_spec
from mypt_cli.jsonl.layout import MAGIC
from mypt_lint.check.checker import Checker
from mypt_lint.check.texts import generation_line
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_spec import Dialect, Episode, Finding, Limits, Message, Part
from mypt_spec.damage.cut_tags import cuts, fragment, inner_tags
from mypt_spec.damage.near_miss import near_miss, sieve
from tests.support.checked import check_bytes, check_generation, check_text
from tests.support.dialects import ALL
from tests.support.examples import either
from tests.support.maker import any_json, drawn, line
from tests.support.strategies import (
    ANY_JSON,
    DIALECTS,
    almost_records,
    any_episodes,
    any_text,
    episodes,
    legal,
    mutate,
    tag_texts,
)

LIMITS = Limits(phase=3, max_tokens=20, tools=frozenset({"x"}))
# Of processor time for one nasty input: each takes a small part of it, quadratic code many times it.
SECONDS = either(4.0, 20.0)


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
    record = data.draw(almost_records(name))
    before = copy.deepcopy(record)
    everything(mypt_spec.dialect(name), record)
    assert record == before, "reading changes nothing"


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_nothing_vanishes_without_a_finding(name: str, data: st.DataObject) -> None:
    """A key put anywhere into a record comes back, or there is a finding."""
    d, record = mypt_spec.dialect(name), data.draw(almost_records(name))
    owner: Any = record
    for _ in range(data.draw(st.integers(0, 6))):
        inner = [v for v in (owner.values() if isinstance(owner, dict) else owner) if isinstance(v, dict | list) and v]  # fmt: skip
        owner = data.draw(st.sampled_from(inner)) if inner else owner
    assume(isinstance(owner, dict))
    owner[data.draw(st.sampled_from(["surprise", "_surprise", "role2", "Content"]))] = "a value of its own"  # fmt: skip
    episode, findings = d.read(record)
    if episode is None or findings or any(f.severity == "error" for f in d.validate(episode)):
        return
    assert "a value of its own" in json.dumps(d.write(episode))


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


HUGE = 10**5000  # too many digits to print
NO_JSON: list[Any] = [
    float("inf"), b"x", (1,), {1: 2}, {"messages": {}}, {"messages": [None]}, {"messages": [{1: 2, "role": []}]}, object(),
    {"system": "s", "messages": [{"role": "user", "content": HUGE}]}, {HUGE: [1]}, {"messages": [], "tools": [{"name": "x", HUGE: 1}]},
    {"messages": [{"role": "user", "content": "x", HUGE: []}]},
]  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_values_that_are_no_json(name: str) -> None:
    for value in NO_JSON:
        everything(mypt_spec.dialect(name), value)


ODD_CHARACTERS = st.characters(categories=["Cs", "Zs", "Cc"])


@pytest.mark.parametrize("name", ALL)
@given(st.data())
def test_any_text(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    text = data.draw(any_text(name) | tag_texts(name) | st.text(ODD_CHARACTERS))
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
    size = d.tokenizer.vocab_size
    odd = [*d.tokenizer.special.values(), 50256, size - 1, size, -1, 2**31, 2**63, -(10**30)]
    special = st.sampled_from(odd)
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


def noisy_line(random: Random, name: str) -> bytes:
    """Returns JSON of any kind, or a legal record with a few bytes changed, as a line."""
    if random.randrange(2):
        return mutate(random, line(random, legal(random, name)))
    value = any_json(random)
    return line(random, value if random.randrange(2) else {"messages": value})


@pytest.mark.parametrize("name", ALL)
@given(st.data())
def test_any_bytes_through_the_checker(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    line = data.draw(st.binary() | drawn(lambda random: noisy_line(random, name)))
    for limits in (Limits(), LIMITS):
        for row in (1, 2):
            found = Checker(d, limits).line(line, row=row, filename="f")
            assert all(
                f.finding.code != "MYP901" and f.row == row and 1 <= f.column <= f.end_column
                for f in found
            )
    if not line.startswith(MAGIC):  # Parquet in memory is refused, as a whole
        check_bytes(Checker(d), line + b"\n" + line)
    generation_line(Checker(d), line, row=1, filename="f")


N = either(10_000, 100_000)
NASTY: dict[str, str] = {
    "brackets": "[" * N,
    "closed brackets": "[" * N + "]" * N,
    "braces": '{"a":' * N,
    "brackets in a string": '"' + "[" * N + '"',
    "spaces": " " * 10 * N,
    "letters": "a" * 10 * N,
    "angles": "<" * 10 * N,
    "angles and spaces": "< " * 5 * N,
    "quotes": '"' * 10 * N,
    "backslashes": "\\" * 10 * N,
    "escaped quotes": '\\"' * 5 * N,
    "newlines": "\n" * 10 * N,
    "almost declarations": "- x" * 3 * N,
    "dashes": "\n- " * 3 * N,
    "near misses": "".join(f"<myPT_usr{i}>" for i in range(N // 5)),
    "no near misses": "".join(f"<descriptor_{i}>" for i in range(N // 2)),
    "endless near miss": "<myPT_" + "a " * 5 * N,
    "digits": "1" * 10 * N,
    "floats": "0." + "1" * 10 * N,
    "hyphens": "en" + "-abc" * (5 * N // 2),
    "surrogates": "\ud800" * N,
}


def nasty(d: Dialect) -> dict[str, str]:
    """Returns nasty texts; in the quick suite, each dialect has every third one of those of all."""
    tags = [t.shown for t in d.table.terminals.values()]
    first = DIALECTS.index(d.name) % 3
    return dict([*NASTY.items()][either(slice(first, None, 3), slice(None))]) | {
        "all tags": "".join(tags) * (N // len(tags)),
        "two tags": (tags[0] + tags[-1]) * (N // 2),
        **{f"many {tag!r}": tag * N for tag in either(tags[:1], tags[:5])},
        **{f"many {tag[:-1]!r}": tag[:-1] * N for tag in inner_tags(d.table, d.automaton)},
    }


def timed(which: str, call: Callable[..., Any], *args: Any, **more: Any) -> Any:
    start = time.process_time()
    out = call(*args, **more)
    assert time.process_time() - start < SECONDS, which
    return out


@pytest.mark.parametrize("name", DIALECTS)
def test_nasty_texts_take_no_time(name: str) -> None:
    d = mypt_spec.dialect(name)
    inner = inner_tags(d.table, d.automaton)
    for which, text in nasty(d).items():
        message = {"role": "user", "content": text}
        record = {"system": text, "language": text, "messages": [message, {"role": text, text: "x"}]}  # fmt: skip
        timed(which, d.parse, text)
        timed(which, d.read, record)
        if inner:
            timed(which, fragment, text, inner)
            timed(which, cuts, d.lex(text), d.table, d.automaton)


@pytest.mark.parametrize("which", [which for which in NASTY if which != "surrogates"])
def test_nasty_texts_are_encoded_in_no_time(which: str) -> None:
    timed(which, mypt_spec.dialect("mypt").tokenizer.encode, NASTY[which])


@pytest.mark.parametrize("name", DIALECTS)
def test_nasty_lines_take_no_time(name: str) -> None:
    """As a whole line, as content, as a body, as an unknown key, as metadata."""
    d = mypt_spec.dialect(name)
    checker = Checker(d, Limits(max_tokens=100))
    prover = CleanFilter(checker)
    for which, whole in nasty(d).items():
        text = whole[: N // 4]
        record: dict[str, Any] = {
            "system": "s\n" + text,
            "messages": [
                {"role": "user", "content": text},
                {"role": "assistant_toolcall", "name": text, "arguments": {"k": text, text: [text]}},
                {"role": "toolresult", "name": text, "content": text},
                {"role": "assistant", "content": text, "cite": text},
            ],
            "_m": {text: text},
        }  # fmt: skip
        for value in (record, record | {text: 1}):
            assert_quick(which, prover, json.dumps(value).encode())
        assert_quick(which, prover, whole.encode("utf-8", "replace"))


def assert_quick(which: str, prover: CleanFilter, line: bytes) -> None:
    timed(which, prover.doubtful, [line])
    found = timed(which, prover.checker.line, line, row=1, filename="f")
    assert all(f.finding.code != "MYP901" for f in found)


def listed(items: str, number: int) -> str:
    return ", ".join([items] * (number * N // 100_000))


MANY_FAULTS = [
    '{"messages": [' + listed("{}", 10_000) + "]}",
    '{"messages": [' + listed('{"role": "x"}', 10_000) + "]}",
    '{"messages": [], ' + ", ".join(f'"k{i}": 1' for i in range(10_000)) + "}",
    '{"messages": [' + listed("NaN", 20_000) + "]}",
    '{"messages": [' + listed('{"a": 1, "a": 2}', 10_000) + "]}",
    '{"system": "s", "messages": [' + listed('{"role": "user", "content": ""}', 5_000) + "]}",
    '{"system": "s", "messages": [' + listed('{"role": "user", "content": " "}, {"role": "assistant", "content": "<myPT_usr>"}', 5_000) + "]}",
    '{"system": "s", "messages": [' + listed('{"role": "assistant_toolcall", "name": "a", "arguments": "{"}', 5_000) + "]}",
    '{"system": "s", "messages": [{"role": "toolresult", "name": "a", "content": [' + listed('"<myPT_user>"', 10_000) + "]}]}",
    '{"system": "s", "messages": [{"role": "user", "content": "' + r"\u003cmyPT_user>\n" * 20_000 + '"}]}',
    '{"system": "s", "messages": [{"role": "user", "content": "' + r"<myPT_usr>\n" * 20_000 + '"}]}',
    # All pointers below one long key are quadratic in the line.
    '{"_' + "k" * 200_000 + '": [' + listed("0", 10_000) + '], "messages": []}',
    '{"_' + "k" * 200_000 + '": [' + listed("NaN", 10_000) + '], "messages": []}',
    '{"messages": [{"role": "toolresult", "name": "a", "content": {"' + "k" * 200_000 + '": [' + listed('"<myPT_user>"', 10_000) + "]}}]}",
]  # fmt: skip


@pytest.mark.parametrize("line", MANY_FAULTS, ids=lambda line: line[:60])
def test_a_line_with_very_many_faults(line: str) -> None:
    found = timed("", Checker(mypt_spec.dialect("mypt")).line, line.encode(), row=1, filename="f")
    assert found
    assert all(f.finding.code != "MYP901" for f in found)
    assert sum(len(f.finding.pointer) + len(f.finding.message) for f in found) < 10 * len(line)


SEEDS = ["<", "< ", "</ ", "<a ", "<a" * 3 + " ", "<|a", "<myPT_", "<myPT_user", " ", "\t", "- ", "\n- ", "\n- a.", "\n \t-`a", "a-", "\ud800", "<a. -"]  # fmt: skip


def patterns() -> dict[str, re.Pattern[str]]:
    """Returns every pattern over content."""
    out = []
    for table in (mypt_spec.dialect(name).table for name in ALL):
        out += [table.literals, table.lexer, table.id_lexer]
        out += [table.tool_names] if table.tool_names else []
    return {regex.pattern: regex for regex in out}


@pytest.mark.parametrize("seed", SEEDS)
def test_patterns_are_linear(seed: str) -> None:
    """Twice the text, about twice the time: for every pattern, on text made to make it go back."""
    small, large = (
        seed * (size // len(seed)) for size in either((5_000, 20_000), (20_000, 80_000))
    )
    calls = {key: regex.findall for key, regex in patterns().items()}
    for name in ALL:
        table = mypt_spec.dialect(name).table
        calls[f"near misses of {name}"] = lambda text, table=table: near_miss(text, table)
        for regex in sieve(table):
            calls[f"{regex.pattern!r}"] = lambda text, regex=regex: regex.findall(
                text.encode("utf-8", "surrogatepass")
            )
    for which, call in calls.items():
        slow = seconds(call, large)
        assert slow < 0.02 or slow < 12 * seconds(call, small), (which, slow)


def seconds(call: Callable[[str], object], text: str) -> float:
    """Returns the least processor time of two calls."""
    times = []
    for _ in range(2):
        start = time.process_time()
        call(text)
        times.append(time.process_time() - start)
    return min(times)
