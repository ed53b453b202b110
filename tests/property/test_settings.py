"""What mypt-lint lets pass is what the other commands write, whatever settings and opt-outs say."""

from __future__ import annotations

import json
import re
from functools import cache
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_cli.jsonl.line import read_line
from mypt_lint.check.from_settings import checker, converter
from mypt_lint.run.chunk import FORMS
from mypt_lint.settings.settings import Settings
from mypt_spec import Finding
from mypt_spec.findings import RULES, SEVERITIES
from mypt_train import Options
from mypt_train.data.encode_line import Encoder
from tests.support.checked import check_bytes
from tests.support.examples import examples
from tests.support.lines import any_line
from tests.support.maker import Maker, drawn
from tests.support.strategies import DIALECTS

CODES = sorted(RULES)
FAMILIES = [
    *([code] for code in CODES),
    *([code for code in CODES if code.startswith(f"MYP{n}")] for n in "0123459"),
    CODES,
]


def suppressed(random: Random, name: str) -> bytes:
    """Returns a line whose record may opt out of something."""
    raw = any_line(random, name)
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
        return raw
    if not isinstance(record, dict) or random.randrange(2):
        return raw
    words = [
        random.choice((*CODES, "MYP1", "MYP2", "MYP3", "MYP")) for _ in range(random.randrange(4))
    ]
    return json.dumps(record | {"_mypt_lint": {"ignore": words}}).encode()


def rules(random: Random, codes: list[str], phases: int) -> Settings:
    """Returns settings, most of them about codes that are found."""
    make = Maker(random, "mypt")
    values: dict[str, Any] = {}

    def family() -> list[str]:
        return [make.choice(codes)] if codes and make.one_in(2) else make.choice(FAMILIES)

    if make.one_in(2):
        values["ignore"] = tuple(code for _ in make.some(0, 3) for code in family())
    if make.one_in(5):
        values["select"] = tuple(family())
    if make.one_in(2):
        grades = [(family(), make.choice(SEVERITIES)) for _ in make.some(0, 3)]
        values["severity"] = tuple((code, grade) for group, grade in grades for code in group)
    if make.one_in(3):
        values["fail-on"] = make.choice(SEVERITIES)
    if phases and make.one_in(4):
        values["phase"] = random.randint(1, phases)
    if make.one_in(4):
        values["max-tokens"] = make.choice((10, 60, 400))
    return Settings(tuple(sorted(values.items())), ())


class Case(NamedTuple):
    """A line, and settings about what is found in it."""

    raw: bytes
    own: Settings


@cache
def cases(name: str) -> st.SearchStrategy[Case]:
    dialect = mypt_spec.dialect(name)
    plain = checker(Settings((), ()), dialect)

    def make(random: Random) -> Case:
        raw = suppressed(random, name)
        codes = sorted({item.finding.code for item in check_bytes(plain, raw)})
        return Case(raw, rules(random, codes, len(dialect.table.phases)))

    return drawn(make)


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=examples(160))
@given(st.data())
def test_a_line_is_written_if_and_only_if_it_lints_clean(name: str, data: st.DataObject) -> None:
    raw, own = data.draw(cases(name))
    if raw.decode(errors="replace").strip()[:1] in ("", "["):
        return  # nothing, or one array, in which the linter sees the records
    linted = check_bytes(checker(own, mypt_spec.dialect(name)), raw + b"\n")
    counted = [item.finding for item in linted if item.finding.severity in own.counting]
    against = [f for f in counted if f.code != FORMS]  # of a file, as whose line this one is read
    outcome = Encoder(Options(dialect=name, pack=False), own).lines([raw], first=True)[0]
    assert (outcome.status == "written") == (not against), (against, outcome.findings)
    reasons = {f.code for f in outcome.findings if f.code[3] != "0"}
    codes = {f.code for f in against}
    assert reasons <= codes or "MYP016" in codes  # a list of records in an object, such as an array


def is_kept(finding: Finding) -> bool:
    """Returns whether a finding is about an unknown key of a record or of a message."""
    place = re.fullmatch(r"((/messages|/chosen|/rejected)(/\d+)?)?/[^/]*", finding.pointer)
    return finding.code in ("MYP103", "MYP112") and place is not None


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=examples(160))
@given(st.data())
def test_a_record_is_converted_if_and_only_if_it_lints_clean(
    name: str, data: st.DataObject
) -> None:
    """Unknown keys of records and messages apart, which conversion keeps.

    Faults of the line are not of the record. Where settings hide an error, the record may say what
    no new record can: then it is refused for that (MYP903), not changed.
    """
    raw, own = data.draw(cases(name))
    line = read_line(raw, first=False)
    if line.fault is not None:
        return
    judge = checker(own, mypt_spec.dialect(name), with_fixes=False)
    found = judge.record_findings(line.value)
    graded = [judge.graded(f) for f in found if judge.selects(f.code)]
    against = [f for f in graded if f.severity in own.counting and not is_kept(f)]
    out = converter(own, name, name).record(line.value)
    if out.record is None and not against:
        assert {f.code for f in out.findings} == {"MYP903"}
        assert any(f.severity == "error" and f not in graded for f in found), out.findings
    else:
        assert (out.record is not None) == (not against), (against, out.findings)
