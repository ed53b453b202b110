"""Repeated episodes are left out across groups, as the one-liner leaves them out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mypt_cli.jsonl.paths import expand
from mypt_train import prepare
from mypt_train.scale import repeats
from mypt_train.scale.commit import commit
from mypt_train.scale.state import counted_up
from tests.support.plans import inputs, make_all, plan_of
from tests.support.shards import episodes_of

# Units of digests, many of which are equal; some share one half.
HALVES = [bytes([i] * 8) for i in (0, 1, 127, 128, 255)]
DIGESTS = st.sampled_from([first + second for first in HALVES for second in HALVES[:2]])
UNITS = st.lists(st.lists(DIGESTS, max_size=8), max_size=8)


def _repeats_one_by_one(units: list[list[bytes]]) -> list[tuple[int, int]]:
    """Returns what a set in plan order leaves out, as (unit, sample)."""
    seen: set[bytes] = set()
    out = []
    for unit, digests in enumerate(units):
        for sample, digest in enumerate(digests):
            if digest in seen:
                out.append((unit, sample))
            seen.add(digest)
    return out


@given(UNITS, st.integers(1, 9))
def test_the_first_in_plan_order_stays_whatever_the_parts(
    units: list[list[bytes]], parts: int
) -> None:
    entries = (
        repeats.entries_of(unit, np.frombuffer(b"".join(digests), "V16"))
        for unit, digests in enumerate(units)
    )
    rows = repeats.repeated(entries, parts)
    assert [(int(row["unit"]), int(row["sample"])) for row in rows] == _repeats_one_by_one(units)


def test_groups_leave_out_what_the_one_liner_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeats, "_MOST", 4)
    paths = inputs(tmp_path / "in")
    plan = plan_of(paths, tmp_path / "out", dedup=True, group=4000)
    assert plan.groups > 3
    manifest = commit(make_all(plan)).manifest
    alone = prepare(expand(paths), tmp_path / "want", plan.options)

    assert episodes_of(tmp_path / "out") == episodes_of(tmp_path / "want")
    assert manifest["lines"] == alone["lines"]
    assert manifest["lines"]["duplicate"] > manifest["lines"]["written"] / 2
    assert manifest["inputs"] == alone["inputs"]


def test_repeats_that_are_found_twice_have_the_same_bytes(tmp_path: Path) -> None:
    plan = make_all(plan_of(inputs(tmp_path / "in"), tmp_path / "out", dedup=True, group=4000))
    counts, found = counted_up(plan), []
    for _ in range(2):
        repeats.find(plan, counts, lambda *_: None)
        files = sorted((tmp_path / "out" / ".work" / "repeats").iterdir())
        found.append([file.read_bytes() for file in files])
    assert found[0] == found[1]
    assert len(found[0]) == plan.groups
    assert any(found[0])
