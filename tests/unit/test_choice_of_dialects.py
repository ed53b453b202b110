"""The quick suite leaves out only dialects that have no feature that the others lack."""

from __future__ import annotations

import pytest

from tests.support.dialects import ALL, COVER, features, smallest_cover


def test_the_cover_has_every_feature_of_every_table() -> None:
    everything = set().union(*(features(name) for name in ALL))
    assert set().union(*(features(name) for name in COVER)) == everything
    assert len(COVER) < len(ALL)


@pytest.mark.parametrize("name", COVER)
def test_no_dialect_of_the_cover_is_superfluous(name: str) -> None:
    others = set().union(*(features(other) for other in COVER if other != name))
    assert not features(name) <= others


def test_the_smallest_cover_is_found() -> None:
    columns = {"a": {1}, "b": {1, 2}, "c": {3}, "d": {2, 3}}
    assert smallest_cover(columns) == ("a", "d")
    assert smallest_cover({"a": {1}, "b": {1, 2, 3}}) == ("b",)
    assert smallest_cover({}) == ()
