"""Repeated episodes are left out across groups, as the one-liner leaves them out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mypt_cli.jsonl.paths import expand
from mypt_train import ShardReader, prepare
from mypt_train.scale.attempts import make
from mypt_train.scale.commit import commit
from mypt_train.scale.dedup import repeats
from mypt_train.scale.state import seal
from tests.unit.mypt_train.scale.test_plan import inputs, planned


def _kept(folder: Path) -> set[tuple[str, str, int]]:
    """Returns the split and the origin of each episode of a data set, and that each is there once."""
    reader = ShardReader(folder, verify=True)
    names = [entry["path"] for entry in reader.manifest["inputs"]]
    found = [
        (split, names[entry["file"]], int(entry["line"]))
        for split in ("train", "val")
        for shard in reader.shards(split)
        for entry in shard.index
    ]
    assert len(found) == len({*found})
    return {*found}


def test_groups_leave_out_what_the_one_liner_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeats, "bits_of", lambda _: 4)
    paths = inputs(tmp_path / "in")
    plan = planned(paths, tmp_path / "out", dedup=True, group=4000)
    assert plan.groups > 3
    for number in range(len(plan.units)):
        make(plan, number)
    made = commit(plan).manifest
    wanted = prepare(expand(paths), tmp_path / "want", plan.options)

    assert _kept(tmp_path / "out") == _kept(tmp_path / "want")
    assert made["lines"] == wanted["lines"]
    assert made["lines"]["duplicate"] > made["lines"]["written"] / 2
    assert made["inputs"] == wanted["inputs"]


def test_a_bucket_that_was_settled_twice_has_the_same_bytes(tmp_path: Path) -> None:
    plan = planned(inputs(tmp_path / "in"), tmp_path / "out", dedup=True, group=4000)
    for number in range(len(plan.units)):
        make(plan, number)
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
