"""Invariant 3: ids and loss agree with the naive mask of tests/property/test_mask.py."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

import mypt_spec
from fuzz.driver import run
from tests.property.test_mask import naive
from tests.support.strategies import records

D = mypt_spec.dialect("mypt")
STRATEGY = st.one_of(records("mypt"), records("mypt", clean=False))


def check(value: dict[str, Any]) -> None:
    episode, _ = D.read(value)
    assert episode is not None
    encoded = D.encode(episode)
    assert (encoded.ids.tolist(), encoded.loss.tolist()) == naive(D.serialize(episode))


if __name__ == "__main__":
    run("mask")
