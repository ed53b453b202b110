"""Plans and their units: the same data set, whatever the units are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mypt_cli.jsonl.paths import expand
from mypt_cli.store import StoreError, find
from mypt_train import Options, prepare
from mypt_train.data.encode_line import Encoder
from mypt_train.scale.commit import commit
from mypt_train.scale.planning.plan import dumped, make_plan
from mypt_train.scale.planning.proof import ChangedError
from mypt_train.scale.run import run_unit
from tests.support.build import contents
from tests.support.plans import HAS_PARQUET, LINES, inputs, plan_of
from tests.support.shards import episodes_of
from tests.support.stores import put


def test_the_size_of_units_changes_no_byte(tmp_path: Path) -> None:
    paths = inputs(tmp_path / "in")
    (tmp_path / "out").mkdir()
    plan = plan_of(paths, tmp_path / "out")
    assert len(plan.units) > 10
    cuts = {"lines", "whole", *["rows"] * HAS_PARQUET}
    assert {source.cut for source in plan.inputs} == cuts
    for number in reversed(range(len(plan.units))):
        run_unit(plan, number)
    commit(plan)
    prepare(expand(paths), tmp_path / "want", plan.options)
    assert contents(tmp_path / "want") == contents(tmp_path / "out")
    # Both go by units: what is on each line of the inputs is independent of them.
    lines = {"a.jsonl": LINES, "b.jsonl.zst": LINES, "c.jsonl.gz": LINES[::2], "d.json": LINES[:5]}
    lines |= {"e.jsonl": LINES[:1], "f.jsonl": LINES[1:2]}
    lines |= {"h.parquet": LINES[:7]} if HAS_PARQUET else {}
    names = [Path(source.path).name for source in plan.inputs]
    written = {key[1:]: ids for key, (ids, _) in episodes_of(tmp_path / "out").items()}
    encode = Encoder(plan.options).line
    assert written == {
        (names.index(name), row): encode(line).samples[0].ids.tobytes()
        for name, some in lines.items()
        for row, line in enumerate(some, 1)
    }


def test_a_plan_pins_inputs_and_options_but_not_the_folder(tmp_path: Path) -> None:
    paths = inputs(tmp_path / "in")
    plan = dumped(plan_of(paths, tmp_path / "out"))
    assert dumped(plan_of(paths, tmp_path / "elsewhere")) == plan
    assert dumped(plan_of(paths, tmp_path / "out", seed=1)) != plan
    Path(paths[0]).write_bytes(LINES[0])
    assert dumped(plan_of(paths, tmp_path / "out")) != plan
    assert str(tmp_path / "out") not in json.dumps(json.loads(plan))


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
            run_unit(plan, number)
        except ChangedError as error:
            errors[number] = str(error)
    reading = [n for n, unit in enumerate(plan.units) if any(p.file in (0, 2) for p in unit)]
    assert [*errors] == reading
    assert f"{paths[0]}: has another SHA-256 than was planned" in errors[0]
    assert any(f"{paths[2]}: is not there" in why for why in errors.values())


def test_objects_are_prepared_as_files(s3: str, tmp_path: Path) -> None:
    """Inputs in a bucket, read by ranges: the shards are those of local files."""
    for path in inputs(tmp_path / "in"):
        put(f"{s3}/in", Path(path).name, Path(path).read_bytes())
    names = [f"{s3}/in/{entry.key}" for entry in find(f"{s3}/in")[1]]
    options = Options(context_length=512, val_fraction=0.3)
    prepare(expand(names), tmp_path / "out", options, unit_size=3000)
    prepare(expand([str(tmp_path / "in")]), tmp_path / "want", options)
    shards = [
        {name: data for name, data in contents(tmp_path / folder).items() if "shard" in name}
        for folder in ("out", "want")
    ]
    assert shards[0] == shards[1]
    assert len(shards[0]) >= 6

    put(f"{s3}/in", "a.jsonl", LINES[0])
    plan = plan_of(names[:1], tmp_path / "more", unit=3000)
    put(f"{s3}/in", "a.jsonl", LINES[1])
    with pytest.raises(StoreError, match=r"in/a.jsonl: has changed since it was listed"):
        run_unit(plan, 0)
    assert not [data for data in contents(tmp_path).values() if b"of-tests" in data]


def test_a_plan_says_how_far_hashes_are(tmp_path: Path) -> None:
    source, counts = tmp_path / "in.jsonl", list[int]()
    source.write_bytes(LINES[0] * 25000)
    size = source.stat().st_size
    assert size > 3 << 20
    options, out = Options(context_length=512), tmp_path / "out"
    make_plan(expand([str(source)]), (), options, out, unit=1 << 20, progress=counts.append)
    assert counts == sorted(counts)
    assert counts[-1] == size
    assert len(counts) > 3  # within a file
