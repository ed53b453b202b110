"""Invariant 4: any bytes, as a line, a text, a generation or token ids, have findings, never an
exception.

The fast path never hides any.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

import mypt_spec
from fuzz.driver import run
from mypt_cli.jsonl.layout import LINES, TABLES, layout_of
from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.check.texts import generation_line
from mypt_lint.run.chunk import OF_THE_FILE
from mypt_spec import Limits
from mypt_spec.findings import Finding
from tests.support.checked import check_bytes, check_generation, check_text
from tests.support.dialects import ALL
from tests.support.strategies import (
    ANY_JSON,
    almost_records,
    any_text,
    lines_of,
    mutated,
    records,
)


def _lines(name: str) -> st.SearchStrategy[bytes]:
    legal = records(name).flatmap(lines_of)
    texts = any_text(name).map(lambda text: text.encode("utf-8", "surrogatepass"))
    return st.one_of(legal, mutated(legal), texts)


ODD = st.one_of(ANY_JSON, st.sampled_from(ALL).flatmap(almost_records)).flatmap(lines_of)
STRATEGY = st.one_of(st.binary(), ODD, st.sampled_from(ALL).flatmap(_lines))
LIMITS = (Limits(), Limits(phase=3, max_tokens=60, tools=frozenset({"search"})))


def _of_lines(items: list[Diagnostic]) -> list[Finding]:
    """Returns findings but for those about several lines of a file."""
    codes = {*OF_THE_FILE, "MYP010", "MYP135"}
    return [item.finding for item in items if item.finding.code not in codes]


def check(value: bytes) -> None:
    text = value.decode("utf-8", "surrogateescape")
    ids = np.frombuffer(value[: len(value) // 2 * 2], dtype=np.uint16)
    for name in mypt_spec.dialects():
        d = mypt_spec.dialect(name)
        for limits in LIMITS:
            checker = Checker(d, limits)
            slow = [
                f
                for row, line in enumerate(value.split(b"\n"), 1)
                for f in checker.line(line, row=row, filename="f")
            ]
            assert all(f.finding.code != "MYP901" for f in slow), slow
            if not value.startswith(TABLES):  # which are read from a file alone
                fast = check_bytes(checker, value + b"\n", "f") if value else []
                if layout_of(value + b"\n", ended=True) == LINES:  # not the beginning of an array
                    assert _of_lines(fast) == _of_lines(slow if value else [])
            check_text(checker, text)
            check_generation(checker, text)
            generation_line(checker, value, row=1, filename="f")
        episode, findings = d.parse_ids(ids)
        assert (episode is None) == any(f.severity == "error" for f in findings)


if __name__ == "__main__":
    run("total_parsing")
