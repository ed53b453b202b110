"""Inputs of every kind that is cut in its own way, and plans of them."""

from __future__ import annotations

import gzip
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import zstandard

from mypt_cli.jsonl.paths import expand
from mypt_train import Options
from mypt_train.scale.planning.plan import Plan, make_plan
from tests.support.shards import PHASES

HAS_PARQUET = find_spec("pyarrow") is not None
LINES = [line + b"\n" for path in PHASES for line in Path(path).read_bytes().splitlines()]


def inputs(folder: Path) -> list[str]:
    """Returns files of every kind that is cut in its own way, and two small ones.

    The last is a Parquet file, where pyarrow is installed.
    """
    folder.mkdir()
    whole = b"".join(LINES)
    half = b"".join(LINES[::2])[:-1]
    frames = [zstandard.compress(whole[at : at + 700]) for at in range(0, len(whole), 700)]
    rows = [json.loads(line) for line in LINES[:7]]
    files = {
        "a.jsonl": whole,
        "b.jsonl.zst": b"".join(frames),
        "c.jsonl.gz": gzip.compress(half),
        "d.json": json.dumps(rows[:5]).encode(),
        "e.jsonl": LINES[0],
        "f.jsonl": LINES[1].rstrip(b"\n"),
        "g.jsonl": b"",
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    paths = [str(folder / name) for name in files]
    if HAS_PARQUET:
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = [{"system": row["system"], "messages": row["messages"]} for row in rows]
        pq.write_table(pa.Table.from_pylist(columns), folder / "h.parquet", row_group_size=2)
        paths.append(str(folder / "h.parquet"))
    return paths


def plan_of(paths: list[str], out: Path, **options: Any) -> Plan:
    """Returns a plan of small units; `options` are fields of Options, and `unit`."""
    unit = options.pop("unit", 900)
    chosen = Options(**{"context_length": 512, "val_fraction": 0.3, **options})
    return make_plan(expand(paths), (), chosen, out, unit=unit)
