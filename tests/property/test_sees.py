"""What a rule says that it sees is what it sees.

And a rule that says nothing is asked about every line, whatever the linter does to be fast.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
import mypt_spec.rules
from mypt_lint.check.checker import Checker
from mypt_lint.fast.answered import ANSWERED, longest
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_lint.run.runner import check_bytes
from mypt_spec import Finding
from mypt_spec.findings import RULES, SEES, Rule
from mypt_spec.rules import Context
from mypt_spec.rules.registry import CHECKS
from mypt_train.data.encode_line import REFUSED, WRITTEN, Encoder
from mypt_train.data.options import Options
from tests.support.lines import LIMITS, any_lines, tagged_lines
from tests.support.strategies import DIALECTS, almost_records, records

NEW = "MYP399"
LONG = 300
TEXTS = {"system", "content", "context", "think", "cite", "text", "reasoning", "self_reflection", "model_identity"}  # fmt: skip


def third_answer(context: Context) -> Iterator[Finding]:
    """The third answer is long."""
    answers = [m for m in context.episode.messages if m.role in ("assistant", "final")]
    for message in answers[2:3]:
        length = sum(len(part.text) for part in message.parts)
        if length > LONG:
            yield Finding(NEW, f"{length} characters", *message.parts[0].at)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A new rule as its author would write it: a row and a check, and no word about speed."""
    monkeypatch.setitem(RULES, NEW, Rule(NEW, "long-third-answer", "error", **request.param))
    monkeypatch.setitem(CHECKS, NEW, third_answer)
    monkeypatch.setattr(mypt_spec.rules, "_CHECKS", [*mypt_spec.rules._CHECKS, third_answer])


def chat(third: str, **more: Any) -> bytes:
    turns = [("Hi", "Yo"), ("So?", "So."), ("More?", third)]
    messages = [
        {"role": role, "content": text}
        for turn in turns
        for role, text in zip(("user", "assistant"), turn, strict=True)
    ]
    return json.dumps({"messages": messages, **more}).encode()


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("planted", [{}, {"sees": "text"}, {"sees": "episode"}], indirect=True)
@pytest.mark.usefixtures("planted")
def test_who_adds_a_rule_need_not_know_how_lines_are_proved(name: str) -> None:
    dialect = mypt_spec.dialect(name)
    head = {"system": "S"} if "system" in dialect.adapter.SCHEMA.top else {}
    short, long = (chat(third, **head) for third in ("Now.", "word " * 80))
    odd, long_odd = (chat(third, **head, note="x") for third in ("Now.", "word " * 80))
    block = [short, short, long, odd, odd, long_odd, short, long]
    found = check_bytes(Checker(dialect), b"".join(line + b"\n" for line in block), "x")
    assert [item.row for item in found if item.finding.code == NEW] == [3, 6, 8]
    assert [item.row for item in found if item.finding.code == "MYP103"] == [4, 5, 6]
    encoder = Encoder(Options(dialect=name))
    for _ in range(3):
        outcomes = encoder.lines([short, long, short, long])
        assert [o.status for o in outcomes] == [WRITTEN, REFUSED] * 2


@pytest.mark.parametrize("planted", [{}], indirect=True)
@pytest.mark.usefixtures("planted")
def test_a_rule_that_is_off_costs_nothing() -> None:
    RULES[NEW] = Rule(NEW, "long-third-answer", "warning")  # an error might leave no episode
    off = Checker(mypt_spec.dialect("mypt"), codes=frozenset(RULES) - {NEW})
    assert CleanFilter(off).clean(chat("word " * 80, system="S"))
    assert not CleanFilter(Checker(off.dialect)).clean(chat("Now.", system="S"))


def test_no_rule_of_today_is_in_the_way() -> None:
    assert all(rule.sees in SEES for rule in RULES.values())
    more = {code for code, rule in RULES.items() if rule.sees in ("text", "episode")}
    assert set(ANSWERED) <= more
    assert not more - set(ANSWERED), "for these each line is checked in full; do they see so much?"
    assert longest(Checker(mypt_spec.dialect("mypt"))) > 1 << 40


def lines_or_records(name: str) -> st.SearchStrategy[Any]:
    return tagged_lines(name).map(json.loads) | almost_records(name) | records(name, clean=False)


@st.composite
def reworded(draw: st.DrawFn, name: str, record: Any) -> tuple[Any, set[str]]:
    """The record with other words in some of its clean texts, and the pointers of these."""
    table = mypt_spec.dialect(name).table
    signs = {c for tag in table.tags for c in tag if not c.isalnum()} | {"<", ">"}
    words = st.text(st.characters(exclude_categories=["C"], exclude_characters=signs), min_size=1)
    words = words | st.sampled_from(["1", "{}", "null", '"x"', "word " * 90])
    changed = set()

    def clean(text: str) -> bool:
        declares = table.tool_names is not None and table.tool_names.search(text)
        return not text.isspace() and text != "" and not signs & set(text) and not declares

    def walk(value: Any, pointer: str) -> Any:
        if isinstance(value, list):
            return [walk(item, f"{pointer}/{i}") for i, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        out = {}
        for key, item in value.items():
            at = f"{pointer}/{key}"
            if key in TEXTS and isinstance(item, str) and clean(item) and draw(st.booleans()):
                out[key] = draw(words.filter(clean))
                changed.add(at)
            else:
                out[key] = walk(item, at)
        return out

    return walk(record, ""), changed


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_structure_is_what_words_do_not_change(name: str, data: st.DataObject) -> None:
    checker = Checker(mypt_spec.dialect(name), data.draw(LIMITS), with_fixes=False)
    record = data.draw(lines_or_records(name))
    other, _ = data.draw(reworded(name, record))

    def found(record: Any) -> Counter[tuple[str, str, bool]]:
        return Counter(
            (f.code, f.pointer, f.on_key)
            for f in checker.judged(record)
            if RULES[f.code].sees == "structure"
        )

    assert found(record) == found(other)


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_a_finding_about_a_text_is_about_no_other(name: str, data: st.DataObject) -> None:
    checker = Checker(mypt_spec.dialect(name), data.draw(LIMITS), with_fixes=False)
    record = data.draw(lines_or_records(name))
    other, changed = data.draw(reworded(name, record))

    def found(record: Any) -> list[Finding]:
        return [
            f
            for f in checker.judged(record)
            if RULES[f.code].sees == "text" and f.pointer not in changed
        ]

    assert found(record) == found(other)


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_what_sees_no_record_is_found_in_none(name: str, data: st.DataObject) -> None:
    checker = Checker(mypt_spec.dialect(name), data.draw(LIMITS))
    line = data.draw(any_lines(name).filter(lambda line: b"\n" not in line))
    for item in checker.line(line, row=2, filename="x"):
        assert RULES[item.finding.code].sees != "none", item.finding
