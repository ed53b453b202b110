"""Plans, units and commits: the same data set, whoever makes which unit."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from mypt_cli.jsonl.paths import expand
from mypt_train import Options, ShardReader, prepare
from mypt_train.scale.commit import commit
from mypt_train.scale.plan import Plan, make_plan
from mypt_train.scale.run import run_unit

ROOT = Path(__file__).parents[4]
LINES = [
    line + b"\n"
    for number in (1, 2, 3, 4, 5)
    for line in (ROOT / "examples" / f"phase{number}.jsonl").read_bytes().splitlines()
]


def inputs(folder: Path) -> list[str]:
    """Returns files of every kind that is cut in its own way, and two small ones."""
    folder.mkdir()
    whole = b"".join(LINES)
    half = b"".join(LINES[::2])[:-1]
    frames = [zstandard.compress(whole[at : at + 700]) for at in range(0, len(whole), 700)]
    # A frame without content, as the seekable format has one.
    frames.insert(2, b"\x50\x2a\x4d\x18\x04\x00\x00\x00none")
    rows = [json.loads(line) for line in LINES[:7]]
    files = {
        "a.jsonl": whole,
        "b.jsonl.zst": b"".join(frames),
        "c.jsonl.gz": gzip.compress(half),
        "d.json": json.dumps([json.loads(line) for line in LINES[:5]]).encode(),
        "e.jsonl": LINES[0],
        "f.jsonl": LINES[1].rstrip(b"\n"),
        "g.jsonl": b"",
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    table = pa.Table.from_pylist([{"system": r["system"], "messages": r["messages"]} for r in rows])
    pq.write_table(table, folder / "h.parquet", row_group_size=2)
    return [str(folder / name) for name in [*files, "h.parquet"]]


def planned(paths: list[str], out: Path, **more: Any) -> Plan:
    sizes = {key: more.pop(key) for key in ("unit", "group") if key in more}
    options = Options(**{"context_length": 512, "val_fraction": 0.3, **more})
    return make_plan(expand(paths), (), options, str(out), **{"unit": 900, **sizes})


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


def test_the_data_set_is_that_of_the_one_liner(tmp_path: Path) -> None:
    paths = inputs(tmp_path / "in")
    plan = planned(paths, tmp_path / "out")
    assert len(plan.units) > 10
    assert {source.cut for source in plan.inputs} == {"lines", "frames", "whole", "rows"}
    for number in range(len(plan.units)):
        run_unit(plan, number)
    assert commit(plan).first
    prepare(expand(paths), tmp_path / "want", plan.options)
    want, found = contents(tmp_path / "want"), contents(tmp_path / "out")
    manifests = [json.loads(some.pop("dataset_metadata.json")) for some in (want, found)]
    assert found == want
    said = manifests[1].pop("plan")
    assert manifests[0] == manifests[1]
    assert said["missing"] == []
    ShardReader(tmp_path / "out", verify=True)
