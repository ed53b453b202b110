"""A dialect that the engine has never heard of: a grammar folder and an adapter of under 40 lines
are all it takes.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given

from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_spec import Episode
from tests.support.build import lines
from tests.support.checked import check_generation, check_text
from tests.toy.records import FOLDER, RECORDS, D

CHECKER = Checker(D)


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
    """All is trained but the blocks of questions, with their tags."""
    encoded = D.encode(episode_of(record))
    opening, closing = (D.table.special[tag] for tag in ("<<ask>>", "<</ask>>"))
    asked, expected = False, []
    for token in encoded.ids.tolist():
        asked = asked or token == opening
        expected.append(int(not asked))
        asked = asked and token != closing
    assert encoded.loss.tolist() == expected
    assert {*expected} == {0, 1}


@given(RECORDS)
def test_lint(record: dict[str, Any]) -> None:
    line = json.dumps(record).encode()
    assert CHECKER.line(line, row=1, filename="x") == []
    assert not CleanFilter(CHECKER).doubtful([line]), "the fast path knows it too"
    assert check_text(CHECKER, D.serialize(episode_of(record))) == []


def test_findings() -> None:
    asked = {
        "messages": [{"role": "ask", "content": "<<stop>>"}, {"role": "anwser", "content": "x"}]
    }
    (item,) = CHECKER.line(lines(asked)[0], row=1, filename="x")
    finding = item.finding
    assert (finding.code, finding.pointer) == ("MYP105", "/messages/1/role")
    assert finding.help == 'did you mean "answer"?'
    for check, text, code in (
        (check_text, "<<ask>>a<<answer>>{work}w{/work}b<</answer>><<stop>>", "MYP211"),
        (check_text, "<<ask>>a<</ask>><<answer>>b{work}w{/work}<</answer>><<stop>>", "MYP220"),
        (check_generation, "<<answer>>b", "MYP701"),
        (check_generation, "<<answer>>b<</answer>><<stop>><<ask>>c", "MYP703"),
    ):
        assert [item.finding.code for item in check(CHECKER, text)] == [code], text
