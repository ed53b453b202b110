"""Repeated episodes are left out across groups, as the one-liner leaves them out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mypt_cli.jsonl.paths import expand
from mypt_train import prepare
from mypt_train.scale import repeats
from mypt_train.scale.commit import commit
from mypt_train.scale.state import seal
from tests.support.plans import inputs, make_all, plan_of
from tests.support.shards import episodes_of


def test_groups_leave_out_what_the_one_liner_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeats, "bits_of", lambda _: 4)
    paths = inputs(tmp_path / "in")
    plan = plan_of(paths, tmp_path / "out", dedup=True, group=4000)
    assert plan.groups > 3
    manifest = commit(make_all(plan)).manifest
    alone = prepare(expand(paths), tmp_path / "want", plan.options)

    assert episodes_of(tmp_path / "out") == episodes_of(tmp_path / "want")
    assert manifest["lines"] == alone["lines"]
    assert manifest["lines"]["duplicate"] > manifest["lines"]["written"] / 2
    assert manifest["inputs"] == alone["inputs"]


def test_a_bucket_that_was_settled_twice_has_the_same_bytes(tmp_path: Path) -> None:
    plan = make_all(plan_of(inputs(tmp_path / "in"), tmp_path / "out", dedup=True, group=4000))
    sealed = seal(plan)
    for _ in range(2):
        for number in range(plan.groups):
            repeats.write_digests(plan, sealed, number)
        repeats.settle(plan, sealed, 0)
    files = sorted((tmp_path / "out" / ".work" / "repeats").iterdir())
    before = [file.read_bytes() for file in files]
    repeats.settle(plan, sealed, 0)
    assert [file.read_bytes() for file in files] == before != []
    assert json.loads((tmp_path / "out" / ".work" / "sealed.json").read_bytes())["plan"]
