"""Answers that `bench.stream` reads are what formats write, and our parser reads each of them right."""

from __future__ import annotations

import pytest

from bench.stream import cut, is_right, ours
from tests.support.answers import many


@pytest.mark.parametrize("name", ["qwen3", "mistral-v13"])
def test_answers_are_read_right(name: str) -> None:
    answers = many(name, 6)
    assert any("tool_calls" in known.message for known in answers)
    for known in answers:
        assert {*known.stops}.isdisjoint(known.ids[:-1])
        size = len(known.ids)
        for places in ([], [size // 2], range(1, size)):
            pieces = cut(known, places)
            assert [i for ids, _ in pieces for i in ids] == known.ids
            assert is_right(known, ours(known, pieces))
            assert not is_right(known, ours(known, pieces[1:]))
