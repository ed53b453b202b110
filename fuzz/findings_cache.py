"""The cache of findings says of each record what the checker says, in any order of asking."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

import mypt_spec
from fuzz.driver import run
from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_lint.fast.findings_cache import FindingsCache
from tests.support.cached_findings import alike, assert_same_findings, skeleton_of
from tests.support.dialects import ALL
from tests.support.lines import tagged_lines
from tests.support.maker import drawn
from tests.support.strategies import almost_records, lines_of

_KNOWN: dict[
    str, FindingsCache
] = {}  # kept from one value to the next: most is recalled from long ago


@st.composite
def _inputs(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from(ALL))
    line = draw(tagged_lines(name) | almost_records(name).flatmap(lines_of))
    skeleton = skeleton_of(_recall(name), line)
    other = None
    if skeleton is not None:
        other = draw(drawn(lambda random: alike(random, name, skeleton)))
    return {
        "dialect": name,
        "lines": [
            item.decode("utf-8", "surrogateescape") for item in (line, other) if item is not None
        ],
    }


STRATEGY = _inputs()


def _recall(name: str) -> FindingsCache:
    return _KNOWN.setdefault(name, FindingsCache(CleanFilter(Checker(mypt_spec.dialect(name)))))


def check(value: dict[str, Any]) -> None:
    for line in value["lines"]:
        for recall in (
            _recall(value["dialect"]),
            FindingsCache(CleanFilter(Checker(mypt_spec.dialect(value["dialect"])))),
        ):
            assert_same_findings(recall, line.encode("utf-8", "surrogateescape"))


if __name__ == "__main__":
    run("findings_cache")
