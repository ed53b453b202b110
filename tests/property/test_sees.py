"""What a rule says that it sees is what it sees.

And a rule that says nothing is asked about every line, whatever the linter does to be fast.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
import mypt_spec.rules
from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_lint.fast.clean_texts import longest
from mypt_spec import Finding, Limits
from mypt_spec.findings import RULES, SEES, Rule
from mypt_spec.rules import Context
from mypt_spec.rules.context import CHECKS
from mypt_train.data.encode_line import Encoder
from mypt_train.data.formats.options import Options
from mypt_train.data.unit_files import REFUSED, WRITTEN
from tests.support.build import assistant, user
from tests.support.checked import check_bytes
from tests.support.examples import examples
from tests.support.lines import LIMITS, any_lines, tagged_line
from tests.support.maker import Maker, drawn
from tests.support.strategies import DIALECTS, almost_record, legal

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
    messages = [m for asked, answer in turns for m in (user(asked), assistant(answer))]
    return json.dumps({"messages": messages, **more}).encode()


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("planted", [{}, {"sees": "text"}, {"sees": "episode"}], indirect=True)
@pytest.mark.usefixtures("planted")
def test_who_adds_a_rule_need_not_know_how_lines_are_proved(name: str) -> None:
    dialect = mypt_spec.dialect(name)
    head = {"system": "S"} if "system" in dialect.adapter.SCHEMA.top else {}
    short, long = (chat(third, **head) for third in ("Now.", "word " * 80))
    odd, long_odd = (chat(third, **head, response="x") for third in ("Now.", "word " * 80))
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
    assert not CleanFilter(off).doubtful([chat("word " * 80, system="S")])
    assert CleanFilter(Checker(off.dialect)).doubtful([chat("Now.", system="S")])


def test_no_rule_of_today_is_in_the_way() -> None:
    assert all(rule.sees in SEES for rule in RULES.values())
    more = {code for code, rule in RULES.items() if rule.sees in ("text", "episode")}
    answered = {code for code, rule in RULES.items() if rule.fast}
    assert answered <= more
    assert not more - answered, "for these each line is checked in full; do they see so much?"
    assert longest(Checker(mypt_spec.dialect("mypt"))) > 1 << 40


class Reworded(NamedTuple):
    """A record, the same with other words in some of its clean texts, and the pointers of these."""

    record: Any
    other: Any
    changed: set[str]


@cache
def reworded(name: str) -> st.SearchStrategy[Reworded]:
    table = mypt_spec.dialect(name).table
    signs = {c for tag in table.tags for c in tag if not c.isalnum()} | {"<", ">"}

    def is_clean(text: str) -> bool:
        declares = table.tool_names is not None and table.tool_names.search(text)
        return bool(text.strip()) and text.isprintable() and not signs & set(text) and not declares

    def words(make: Maker) -> str:
        text = make.choice((make.characters(least=1), "1", "{}", "null", '"x"', "word " * 90))
        return text if is_clean(text) else "word"

    def make_pair(random: Random) -> Reworded:
        make, changed = Maker(random, name), set()
        kinds = (
            lambda: json.loads(tagged_line(random, name)),
            lambda: almost_record(random, name),
            lambda: legal(random, name, clean=False),
        )
        record = make.choice(kinds)()

        def walk(value: Any, pointer: str) -> Any:
            if isinstance(value, list):
                return [walk(item, f"{pointer}/{i}") for i, item in enumerate(value)]
            if not isinstance(value, dict):
                return value
            out = {}
            for key, item in value.items():
                at = f"{pointer}/{key}"
                if key in TEXTS and isinstance(item, str) and is_clean(item) and make.one_in(2):
                    out[key] = words(make)
                    changed.add(at)
                else:
                    out[key] = walk(item, at)
            return out

        return Reworded(record, walk(record, ""), changed)

    return drawn(make_pair)


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=examples(120))
@given(LIMITS, st.data())
def test_findings_are_about_what_their_rules_see(
    name: str, limits: Limits, data: st.DataObject
) -> None:
    """Words do not change structure, and a finding about a text is about no other."""
    checker = Checker(mypt_spec.dialect(name), limits, with_fixes=False)
    record, other, changed = data.draw(reworded(name))
    one, two = checker.record_findings(record), checker.record_findings(other)
    shapes = [
        Counter((f.code, f.pointer, f.on_key) for f in found if RULES[f.code].sees == "structure")
        for found in (one, two)
    ]
    assert shapes[0] == shapes[1]
    texts = [
        [f for f in found if RULES[f.code].sees == "text" and f.pointer not in changed]
        for found in (one, two)
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_what_sees_no_record_is_found_in_none(name: str, data: st.DataObject) -> None:
    checker = Checker(mypt_spec.dialect(name), data.draw(LIMITS))
    line = data.draw(any_lines(name))
    for item in checker.line(line, row=2, filename="x"):
        assert RULES[item.finding.code].sees != "none", item.finding
