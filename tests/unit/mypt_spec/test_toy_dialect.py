"""A dialect that the engine has never heard of: a grammar folder and an adapter of under 40 lines
are all it takes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mypt_lint.check.checker import Checker
from mypt_lint.check.texts import check_generation, check_text
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_spec import Episode
from mypt_spec.damage.near_miss import near_miss
from mypt_spec.dialect import load
from mypt_spec.table import TEXT
from tests.toy.adapter import ADAPTER

FOLDER = Path(__file__).parents[2] / "toy"
D = load(FOLDER, ADAPTER)
CHECKER = Checker(D)


def clean(text: str) -> bool:
    return (
        bool(text.strip())
        and not D.table.literals.search(text)
        and near_miss(text, D.table) is None
    )


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(clean)
ANSWERS = st.fixed_dictionaries(
    {"role": st.just("answer"), "content": TEXTS}, optional={"work": TEXTS, "_note": st.integers()}
)
TURNS = st.tuples(st.fixed_dictionaries({"role": st.just("ask"), "content": TEXTS}), ANSWERS)
RECORDS = st.lists(TURNS, min_size=1, max_size=3).map(
    lambda turns: {"messages": [m for turn in turns for m in turn]}
)


def episode_of(record: dict[str, Any]) -> Episode:
    episode, findings = D.read(record)
    assert findings == []
    assert episode is not None
    return episode


def test_the_adapter_is_short() -> None:
    assert len((FOLDER / "adapter.py").read_text().splitlines()) < 40


@given(RECORDS)
def test_round_trips(record: dict[str, Any]) -> None:
    episode = episode_of(record)
    assert D.validate(episode) == []
    for layout in D.table.layouts:
        assert D.parse(D.serialize(episode, layout=layout)) == (episode, [])
    encoded = D.encode(episode)
    assert D.parse_ids(encoded.ids) == (episode, [])
    canonical = D.write(episode)
    assert D.write(episode_of(canonical)) == canonical


@given(RECORDS)
def test_the_mask(record: dict[str, Any]) -> None:
    episode = episode_of(record)
    want = []
    for event in D.lex(D.serialize(episode)):
        trained = event.terminal not in ("ASK_OPEN", "ASK_CLOSE") and not (
            event.terminal == TEXT and want and want[-1][0] == "ASK_OPEN"
        )
        want.append((event.terminal, trained))
    encoded = D.encode(episode)
    asked = [50257, 50258]
    got, inside = [], False
    for token, loss in zip(encoded.ids.tolist(), encoded.loss.tolist(), strict=True):
        inside = token == asked[0] or (inside and token != asked[1])
        got.append(bool(loss) == (not inside and token != asked[1]))
    assert all(got)
    assert {trained for _, trained in want} == {False, True}


@given(RECORDS)
def test_lint(record: dict[str, Any]) -> None:
    line = json.dumps(record).encode()
    assert CHECKER.line(line, row=1, filename="x") == []
    assert CleanFilter(CHECKER).clean(line), "the fast path knows it too"
    assert check_text(CHECKER, D.serialize(episode_of(record))) == []


def test_findings() -> None:
    record = {
        "messages": [{"role": "ask", "content": "<<stop>>"}, {"role": "anwser", "content": "x"}]
    }
    found = CHECKER.line(json.dumps(record).encode(), row=1, filename="x")
    assert [(f.finding.code, f.finding.pointer, f.finding.help) for f in found] == [
        ("MYP105", "/messages/1/role", 'did you mean "answer"?')
    ]
    codes = [
        f.finding.code
        for f in check_text(CHECKER, "<<ask>>a<<answer>>{work}w{/work}b<</answer>><<stop>>")
    ]
    assert codes == ["MYP211"]
    assert [
        f.finding.code
        for f in check_text(CHECKER, "<<ask>>a<</ask>><<answer>>b{work}w{/work}<</answer>><<stop>>")
    ] == ["MYP220"]
    assert [f.finding.code for f in check_generation(CHECKER, "<<answer>>b")] == ["MYP701"]
    assert [
        f.finding.code for f in check_generation(CHECKER, "<<answer>>b<</answer>><<stop>><<ask>>c")
    ] == ["MYP703"]
