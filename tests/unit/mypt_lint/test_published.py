"""Correct rows with the columns of published data sets have no error, and keep what they say."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.support.build import write
from tests.support.examples import examples
from tests.support.linting import Linter
from tests.support.published import SHAPES


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("shape", SHAPES)
def test_correct_rows_have_no_error(shape: str, lint: Linter) -> None:
    """And few warnings: at most one for each key that is not known; and a remark about tools."""
    random = Random(shape)
    rows = [SHAPES[shape](random) for _ in range(examples(480))]
    status, findings, err = lint("--no-config", write("x.jsonl", *rows))
    assert [f for f in findings if f["severity"] == "error"] == []
    told = Counter(f["code"] for f in findings)
    assert status == 0
    assert set(told) <= {"MYP112", "MYP134", "MYP252"}, findings[:3]
    assert told["MYP112"] <= 8
    assert "lines clean" in err


def test_there_are_many_shapes() -> None:
    assert len(SHAPES) * 480 > 10_000
