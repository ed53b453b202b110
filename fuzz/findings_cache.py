"""The cache says of third-party records what the checker says, in any order of asking."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

import mypt_spec
from fuzz.driver import run
from mypt_lint.check.checker import Checker
from mypt_lint.fast.findings_cache import FindingsCache
from tests.property.test_fast_chats import RECORDS, chats, lines


@st.composite
def _inputs(draw: st.DrawFn) -> dict[str, Any]:
    shape = draw(st.sampled_from([*RECORDS]))
    drawn = [line.decode("utf-8", "surrogateescape") for line in draw(lines(shape))]
    return {"shape": shape, "dialect": draw(st.sampled_from(["", "mypt"])), "lines": drawn}


STRATEGY = _inputs()


def check(value: dict[str, Any]) -> None:
    shape, name = value["shape"], value["dialect"]
    checker = Checker(
        mypt_spec.dialect(name or "mypt"), shape=shape, formatless=not name, system="S"
    )
    # One cache is kept from one value to the next: most is recalled from long ago.
    for cache in (chats(shape, name), FindingsCache(checker)):
        for line in value["lines"]:
            raw = line.encode("utf-8", "surrogateescape")
            expected = checker.line(raw, row=2, filename="f")
            for _ in range(2):
                assert cache.line(raw, row=2, filename="f") == expected, line


if __name__ == "__main__":
    run("findings_cache")
