"""Plans, units and commits: the same data set, whoever makes which unit."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mypt.prepare.scale import _numbers
from mypt_cli.jsonl.paths import expand
from mypt_cli.store import Store, StoreError
from mypt_train import Options, ShardError, ShardReader, prepare
from mypt_train.data.encode_line import Encoder
from mypt_train.scale.commit import commit
from mypt_train.scale.planning.plan import (
    PlanError,
    dumped,
    make_plan,
    parsed,
    read_plan,
    write_plan,
)
from mypt_train.scale.planning.proof import ChangedError
from mypt_train.scale.run import make, run_unit
from mypt_train.scale.state import missing_units, ranges
from tests.support.build import contents
from tests.support.plans import HAS_PARQUET, LINES, inputs, make_all, plan_of
from tests.support.shards import episodes_of


def test_the_data_set_is_that_of_the_one_liner(tmp_path: Path) -> None:
    paths = inputs(tmp_path / "in")
    plan = plan_of(paths, tmp_path / "out")
    assert len(plan.units) > 10
    cuts = {"lines", "whole", *["rows"] * HAS_PARQUET}
    assert {source.cut for source in plan.inputs} == cuts
    for number in range(len(plan.units)):
        run_unit(plan, number)
    assert commit(plan).first
    prepare(expand(paths), tmp_path / "want", plan.options)
    both = [contents(tmp_path / name) for name in ("want", "out")]
    manifests = [json.loads(files.pop("dataset_metadata.json")) for files in both]
    assert both[0] == both[1]
    assert manifests[1].pop("plan")["groups"] == 1
    assert manifests[0] == manifests[1]
    # The one-liner goes by units, too: what is on each line of the inputs is independent of both.
    lines = {"a.jsonl": LINES, "b.jsonl.zst": LINES, "c.jsonl.gz": LINES[::2], "d.json": LINES[:5]}
    lines |= {"e.jsonl": LINES[:1], "f.jsonl": LINES[1:2]}
    lines |= {"h.parquet": LINES[:7]} if HAS_PARQUET else {}
    names = [Path(source["path"]).name for source in manifests[0]["inputs"]]
    written = {key[1:]: ids for key, (ids, _) in episodes_of(tmp_path / "out").items()}
    encode = Encoder(plan.options).line
    assert written == {
        (names.index(name), row): encode(line).samples[0].ids.tobytes()
        for name, some in lines.items()
        for row, line in enumerate(some, 1)
    }


def test_groups_hold_the_same_episodes(tmp_path: Path) -> None:
    paths = inputs(tmp_path / "in")[:2]
    one = plan_of(paths, tmp_path / "one", unit=4000)
    many = plan_of(paths, tmp_path / "many", unit=1500, group=4500)
    assert one.groups == 1 < many.groups
    drawn = [many.of_group(number) for number in range(many.groups)]
    assert sorted(n for group in drawn for n in group) == [*range(len(many.units))]
    for plan in (one, many):
        for number in reversed(range(len(plan.units))):
            make(plan, number)
        commit(plan)
    assert episodes_of(tmp_path / "one") == episodes_of(tmp_path / "many")
    names = [path.name for path in (tmp_path / "many" / "train").glob("*.npy")]
    assert len(names) == many.groups
    assert "group_00001_00000_idx.npy" in names
    manifest = tmp_path / "many" / "dataset_metadata.json"
    manifest.write_bytes(manifest.read_bytes().replace(b"group_00001_00000", b"group_00000_00000"))
    with pytest.raises(ShardError, match="describes shard 1 of train"):
        ShardReader(tmp_path / "many")


def test_a_plan_is_read_back(tmp_path: Path) -> None:
    paths = inputs(tmp_path / "in")
    plan = plan_of(paths, tmp_path / "out", on_error="reject", mask="trl")
    assert parsed(dumped(plan), "plan.json") == plan
    write_plan(plan)
    assert write_plan(plan) == str(tmp_path / "out" / "plan.json")
    with pytest.raises(PlanError, match="another plan is there"):
        write_plan(plan_of(paths, tmp_path / "out", seed=1))
    (tmp_path / "out" / "plan.json").unlink()
    run_unit(plan, 0)
    with pytest.raises(PlanError, match="work: has units of another plan; delete it"):
        write_plan(plan_of(paths, tmp_path / "out", seed=1))
    again = plan_of(paths, tmp_path / "elsewhere")
    assert [source.sha256 for source in again.inputs] == [source.sha256 for source in plan.inputs]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema": "mypt_plan_v2"}, "not a plan of schema mypt_plan_v1, but mypt_plan_v2"),
        ({"version": "0.0.9"}, "was made by version 0.0.9"),
        ({"out": "elsewhere"}, "was changed after it was written"),
        ({"options": {"dialect": "mypt", "shuffle": 1}, "sha256": None}, "not know: shuffle"),
        ({"fingerprint": "0" * 64, "sha256": None}, "another grammar of mypt"),
        ({"vocabulary": {"a": "b"}, "sha256": None}, "another vocabulary"),
        ({"units": [[[0]]], "sha256": None}, "is not a complete plan"),
    ],
)
def test_a_plan_that_cannot_be_followed(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES[0])
    body = json.loads(dumped(plan_of([str(tmp_path / "a.jsonl")], tmp_path / "out"))) | change
    if body["sha256"] is None:
        del body["sha256"]
        body["sha256"] = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(body))
    with pytest.raises(PlanError, match=re.escape(says)):
        read_plan(str(path))


def test_an_input_that_changes_stops_its_unit_by_name(tmp_path: Path) -> None:
    paths = inputs(tmp_path / "in")
    plan = plan_of(paths, tmp_path / "out", on_error="reject")
    first = Path(paths[0])
    altered = bytearray(first.read_bytes())
    altered[10] ^= 1
    first.write_bytes(altered)
    Path(paths[2]).unlink()
    errors = {}
    for number in range(len(plan.units)):
        try:
            make(plan, number)
        except ChangedError as error:
            errors[number] = str(error)
    assert len(errors) == 2
    assert f"{paths[0]}: has another SHA-256 than was planned" in errors[0]
    assert any(f"{paths[2]}: is not there" in why for why in errors.values())
    with pytest.raises(PlanError, match=rf"2 of .* not made yet \({ranges(errors)}\)"):
        commit(plan)
    assert missing_units(plan) == [*errors]


def test_what_is_made_is_not_made_again(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"".join(LINES))
    plan = plan_of([str(tmp_path / "a.jsonl")], tmp_path / "out")
    for number in (0, *range(2, len(plan.units))):
        assert make(plan, number)
    with pytest.raises(PlanError, match=r"1 of .* not made yet \(1\)"):
        commit(plan)
    assert make(plan, 1)
    assert not make(plan, 1)
    assert commit(plan).first
    assert not commit(plan).first
    assert not make(plan, 1)
    assert not (tmp_path / "out" / ".work").exists()
    with pytest.raises(PlanError, match="a data set of another plan is there"):
        commit(replace(plan, sha256="0"))


@given(st.sets(st.integers(0, 60), min_size=1))
def test_ranges_are_read_back(numbers: set[int]) -> None:
    assert _numbers(ranges(numbers)) == sorted(numbers)


def test_refused_lines_make_no_data_set(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"".join(LINES) + b"{}\n")
    plan = plan_of([str(tmp_path / "a.jsonl")], tmp_path / "out")
    last = len(LINES) + 1
    with pytest.raises(PlanError, match=rf"1 of {last} lines.*\n.*a.jsonl:{last}: MYP"):
        commit(make_all(plan))
    with pytest.raises(ShardError):
        ShardReader(tmp_path / "out")


def test_an_object_that_changes_stops_its_unit(s3: str, tmp_path: Path) -> None:
    """Inputs and data set in a bucket, read by ranges; the shards are those of local files."""
    store = Store.at(f"{s3}/in")
    for path in inputs(tmp_path / "in"):
        store.put(Path(path).name, Path(path))
    names = [f"{s3}/in/{entry.key}" for entry in store.entries()]
    plan = plan_of(names, f"{s3}/out", unit=3000)
    write_plan(plan)
    for number in range(len(plan.units)):
        make(read_plan(f"{s3}/out"), number)
    assert commit(plan).first
    assert not commit(plan).first
    prepare(expand([str(tmp_path / "in")]), tmp_path / "want", plan.options)
    want = contents(tmp_path / "want")
    shards = {key: Store.at(f"{s3}/out").read(key) for key in want if "shard" in key}
    assert shards == {key: data for key, data in want.items() if "shard" in key}
    assert len(shards) >= 6
    assert [e.key for e in Store.at(f"{s3}/out").entries() if e.key.startswith(".work")] == []

    store.put("a.jsonl", LINES[0])
    plan = plan_of(names[:1], f"{s3}/more", unit=3000)
    store.put("a.jsonl", LINES[1])
    with pytest.raises(StoreError, match=r"in/a.jsonl: has changed since it was listed"):
        make(plan, 0)
    assert missing_units(plan) == [0]
    everything = [*contents(tmp_path).values()]
    everything += [Store.at(s3).read(entry.key) for entry in Store.at(s3).entries()]
    assert not [data for data in everything if b"of-tests" in data]


def test_a_commit_says_how_far_it_is(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_bytes(b"".join(LINES * 2))
    plan = plan_of([str(source)], tmp_path / "out", unit=4000, group=9000, dedup=True)
    for number in range(len(plan.units)):
        run_unit(plan, number)
    shown: dict[str, list[tuple[float, int]]] = {}

    def progress(what: str, done: float, total: int) -> None:
        shown.setdefault(what, []).append((done, total))

    commit(plan, progress=progress)
    assert list(shown) == ["counting", "comparing", "packing"]
    assert len(shown["packing"]) == plan.groups > 1
    for steps in shown.values():
        done, totals = [done for done, _ in steps], {total for _, total in steps}
        assert done == sorted(done)
        assert totals == {done[-1]}
    assert shown["counting"][-1] == (len(plan.units), len(plan.units))


def test_a_plan_says_how_far_hashes_are(tmp_path: Path) -> None:
    source, counts = tmp_path / "in.jsonl", list[int]()
    source.write_bytes(LINES[0] * 25000)
    size = source.stat().st_size
    assert size > 3 << 20
    options = Options(context_length=512)
    make_plan(expand([str(source)]), (), options, str(tmp_path / "out"), progress=counts.append)
    assert counts == sorted(counts)
    assert counts[-1] == size
    assert len(counts) > 3  # within a file
