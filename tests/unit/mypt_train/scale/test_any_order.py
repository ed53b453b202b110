"""Whoever makes which unit, when, how often, and is killed where: the same bytes."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mypt.prepare.cli import main
from mypt_cli.jsonl.paths import expand
from mypt_cli.store import store as stores
from mypt_train import Options
from mypt_train.scale.commit import commit
from mypt_train.scale.planning.plan import Plan, make_plan, read_plan, write_plan
from mypt_train.scale.run import make, run_unit
from tests.support.memory_store import KilledError, Memory
from tests.support.stores import Faulty

ROOT = Path(__file__).parents[4]
LINES = (ROOT / "examples" / "phase1.jsonl").read_bytes()


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Returns the buckets of s3:// by their names; those that are missing are made."""
    buckets: dict[str, Any] = {"in": Memory()}
    monkeypatch.setattr(stores, "_bucket", lambda _, name, __: buckets.setdefault(name, Memory()))
    monkeypatch.setattr(stores, "_FIRST", 0.0)
    return buckets


def planned(bucket: dict[str, Any], out: str) -> Plan:
    """Returns a plan of five units and two groups, which is written into the bucket `out`."""
    held = bucket["in"].held
    held["data/a.jsonl"], held["data/b.jsonl"] = LINES * 2, LINES
    sources = expand(["s3://in/data/*.jsonl"])
    options = Options(context_length=256, val_fraction=0.2)
    plan = make_plan(sources, (), options, f"s3://{out}/set", unit=602, group=1806)
    assert (len(plan.units), plan.groups) == (5, 2)
    write_plan(plan)
    return plan


def committed(bucket: dict[str, Any], out: str) -> dict[str, bytes]:
    """Returns what is in a bucket but the plan and the manifest, which name the bucket."""
    held = bucket[out].held if isinstance(bucket[out], Memory) else bucket[out].backend.held
    return {key: data for key, data in held.items() if "/.work/" not in key and key[-5:] != ".json"}


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_order_any_kill(bucket: dict[str, Any], data: st.DataObject) -> None:
    if "want" not in bucket:
        plan = planned(bucket, "want")
        for number in range(5):
            run_unit(plan, number)
        commit(plan)
    bucket.pop("out", None)
    memory = bucket["out"] = Memory()
    plan = planned(bucket, "out")
    for number in data.draw(st.lists(st.integers(0, 4), max_size=8), label="units"):
        memory.calls, memory.dies = 0, data.draw(st.integers(0, 6), label="dies")
        with suppress(KilledError):
            run_unit(plan, number) if data.draw(st.booleans()) else make(plan, number)
    for number in data.draw(st.permutations(range(5))):
        memory.dies = 0
        make(plan, number)
    first = False
    for dies in data.draw(st.lists(st.integers(1, 60), max_size=3), label="commits die"):
        memory.calls, memory.dies = 0, dies
        with suppress(KilledError):
            first |= commit(plan).first
    memory.dies = 0
    last = commit(plan)
    assert not (first and last.first)
    assert not [key for key in memory.held if "/.work/" in key]
    assert committed(bucket, "out") == committed(bucket, "want")
    assert last.manifest["lines"]["lines"] == 18 == last.manifest["lines"]["written"]


def test_a_store_with_faults(bucket: dict[str, Any]) -> None:
    plan = planned(bucket, "want")
    for number in range(5):
        make(plan, number)
    commit(plan)
    calls = range(1, 400)
    bucket["out"] = Faulty(
        Memory(), fails=calls[::7], loses=calls[3::7], cuts=calls[5::7], repeats=calls[::3], late=4
    )
    planned(bucket, "out")
    plan = read_plan("s3://out/set/plan.json")
    for number in (3, 0, 4, 1, 2, 0):
        run_unit(plan, number)
    commit(plan)
    assert not commit(plan).first
    assert committed(bucket, "out") == committed(bucket, "want")


def test_what_each_object_holds_is_said_in_order(
    bucket: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    openai = b'{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]}\n'
    for number in range(9):
        bucket["in"].held[f"data/{number}.jsonl"] = openai if number % 2 else LINES
    out = str(tmp_path / "out")
    assert main(["plan", "s3://in/data/", "--out", out, "--dialect", "mypt"]) == 0
    notes = capsys.readouterr().err.splitlines()
    assert [line.split("/data/")[1][0] for line in notes] == ["1", "3", "5", "7"]
    plan = read_plan(out)
    assert [source.path for source in plan.inputs] == [f"s3://in/data/{n}.jsonl" for n in range(9)]
    assert all(source.etag and not source.sha256 for source in plan.inputs)
    assert main(["run", "--plan", out]) == 0
    assert main(["commit", "--plan", out]) == 2
    assert "4 of 34 lines are refused; repair them and plan again" in capsys.readouterr().err
    rejects = (tmp_path / "out" / "rejects.jsonl").read_text().splitlines()
    assert [json.loads(line)["file"][-7] for line in rejects] == ["1", "3", "5", "7"]
