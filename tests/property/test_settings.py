"""What mypt-lint lets pass is what the other commands write, whatever settings and opt-outs say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_cli.jsonl.line import read_line
from mypt_convert import Converter
from mypt_lint.run.plan import checker
from mypt_lint.run.runner import check_bytes
from mypt_lint.settings.settings import Settings
from mypt_spec.findings import RULES, SEVERITIES
from mypt_train import Options
from mypt_train.data.encode_line import Encoder
from tests.support.examples import examples
from tests.support.lines import any_lines
from tests.support.strategies import DIALECTS

CODES = sorted(RULES)
FAMILIES = [
    *([code] for code in CODES),
    *([code for code in CODES if code.startswith(f"MYP{n}")] for n in "0123459"),
    CODES,
]


@st.composite
def suppressed(draw: st.DrawFn, lines: st.SearchStrategy[bytes]) -> bytes:
    """A line whose record may opt out of something."""
    raw = draw(lines)
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
        return raw
    if not isinstance(record, dict) or draw(st.booleans()):
        return raw
    words = draw(st.lists(st.sampled_from([*CODES, "MYP1", "MYP2", "MYP3", "MYP"]), max_size=3))
    return json.dumps(record | {"_mypt_lint": {"ignore": words}}).encode()


@st.composite
def rules(draw: st.DrawFn, codes: list[str], phases: int) -> Settings:
    """Settings, most of them about codes that are found."""
    some = st.sampled_from(FAMILIES + [[code] for code in codes] * 20)
    values: dict[str, Any] = {}
    if draw(st.booleans()):
        values["ignore"] = tuple(c for group in draw(st.lists(some, max_size=3)) for c in group)
    if draw(st.integers(0, 4)) == 0:
        values["select"] = tuple(draw(some))
    if draw(st.booleans()):
        graded = st.tuples(some, st.sampled_from(SEVERITIES))
        values["severity"] = tuple(
            (code, severity) for group, severity in draw(st.lists(graded, max_size=3))
            for code in group
        )  # fmt: skip
    if draw(st.integers(0, 2)) == 0:
        values["fail-on"] = draw(st.sampled_from(SEVERITIES))
    if phases and draw(st.integers(0, 3)) == 0:
        values["phase"] = draw(st.integers(1, phases))
    if draw(st.integers(0, 3)) == 0:
        values["max-tokens"] = draw(st.sampled_from([10, 60, 400]))
    return Settings(tuple(sorted(values.items())), ())


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_a_line_is_written_if_and_only_if_it_lints_clean(name: str, data: st.DataObject) -> None:
    dialect = mypt_spec.dialect(name)
    # A file that begins with `[` is one array, in which the linter sees the records.
    lines = any_lines(name).filter(
        lambda line: b"\n" not in line and line.strip(b"\r\t ")[:1] not in (b"", b"[")
    )
    raw = data.draw(suppressed(lines))
    found = {item.finding.code for item in check_bytes(checker(Settings((), ()), dialect), raw)}
    own = data.draw(rules(sorted(found), len(dialect.table.phases)))
    linted = check_bytes(checker(own, dialect), raw + b"\n")
    against = [item.finding for item in linted if item.finding.severity in own.counting]
    outcome = Encoder(Options(dialect=name, pack=False), own).lines([raw], first=True)[0]
    assert (outcome.status == "written") == (not against), (against, outcome.findings)
    said = {f.code for f in outcome.findings if f.code[3] != "0"}
    assert said <= {f.code for f in against}


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_a_record_is_converted_if_and_only_if_it_lints_clean(
    name: str, data: st.DataObject
) -> None:
    """Unknown keys apart, which conversion keeps; faults of the line are not of the record."""
    dialect = mypt_spec.dialect(name)
    raw = data.draw(suppressed(any_lines(name).filter(lambda line: b"\n" not in line)))
    line = read_line(raw, first=False)
    if line.fault is not None:
        return
    found = {item.finding.code for item in check_bytes(checker(Settings((), ()), dialect), raw)}
    own = data.draw(rules(sorted(found), len(dialect.table.phases)))
    judge = checker(own, dialect, with_fixes=False)
    graded = [judge.graded(f) for f in judge.judged(line.value) if judge.selects(f.code)]
    against = [f for f in graded if f.severity in own.counting and f.code != "MYP103"]
    out = Converter(name, name, rules=own).record(line.value)
    assert (out.record is not None) == (not against), (against, out.findings)
