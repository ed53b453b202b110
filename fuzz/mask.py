"""Invariant 3: ids and loss agree with the naive mask of tests/support/naive_mask.py."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

import mypt_spec
from fuzz.driver import run
from tests.support.dialects import ALL
from tests.support.naive_mask import naive_mask
from tests.support.strategies import records


def values(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Returns the strategy of the inputs of one dialect."""
    legal = records(name) | records(name, clean=False)
    return legal.map(lambda r: {"dialect": name, "record": json.loads(json.dumps(r))})


STRATEGY = st.sampled_from(ALL).flatmap(values)


def check(value: dict[str, Any]) -> None:
    d = mypt_spec.dialect(value["dialect"])
    episode, _ = d.read(value["record"])
    assert episode is not None
    encoded = d.encode(episode)
    expected = naive_mask(d.name, d.serialize(episode), meta=episode.meta)
    assert (encoded.ids.tolist(), encoded.loss.tolist()) == expected


if __name__ == "__main__":
    run("mask")
