"""Workers that are killed at random points leave the bytes of a run that nobody killed."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mypt_cli.jsonl.paths import MANIFEST
from mypt_train.scale.attempts import make
from mypt_train.scale.commit import commit
from mypt_train.scale.drive import drive
from mypt_train.scale.launch.local import Local
from mypt_train.scale.plan import write_plan
from tests.unit.mypt_train.scale.test_plan import LINES, contents, planned

# nox -s scale takes 200.
KILLS = int(os.environ.get("KILLS", "5"))


def mortal(do: Callable[[int], object], name: str, marks: Path, seed: int, number: int) -> object:
    """Does a unit or task, but ends this process at a random point of its first attempt.

    The point is in processor time, so that it does not depend on what else the machine does.
    """
    mark = marks / f"{name}-{number}"
    if mark.exists():
        return do(number)
    mark.touch()
    rng = random.Random(f"{seed} {mark.name}")
    signal.setitimer(signal.ITIMER_PROF, 10 ** rng.uniform(-2.5, 0))
    done = do(number)
    signal.setitimer(signal.ITIMER_PROF, 0)
    mark.with_suffix(".lived").touch()
    return done


def _said(folder: Path) -> dict[str, Any]:
    """Returns a data set: its files, and its manifest without the hash of its plan."""
    found: dict[str, Any] = {**contents(folder)}
    found.pop("plan.json", None)
    found[MANIFEST] = json.loads(found[MANIFEST])
    del found[MANIFEST]["plan"]["sha256"]
    return found


@pytest.mark.skipif(not hasattr(signal, "ITIMER_PROF"), reason="the system has no such timers")
def test_two_workers_killed_at_random_points(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_bytes(b"".join(LINES * 3))
    options = {"unit": 9000, "group": 20000, "dedup": True}
    calm = planned([str(source)], tmp_path / "calm", **options)
    for number in range(len(calm.units)):
        make(calm, number)
    lines = commit(calm).manifest["lines"]
    assert lines["lines"] == 3 * len(LINES)

    killed = 0
    for seed in range(KILLS):
        marks = tmp_path / f"marks-{seed}"
        marks.mkdir()
        plan = planned([str(source)], tmp_path / f"out-{seed}", **options)
        path = write_plan(plan)

        def engine(do: Callable[[int], object], *, marks: Path = marks, seed: int = seed) -> Local:
            name = "task" if any(marks.iterdir()) else "unit"
            return Local(partial(mortal, do, name, marks, seed), 2)

        assert not drive(plan, path, range(len(plan.units)), engine=engine).aside
        commit(plan, path=path, engine=engine)
        assert _said(tmp_path / f"out-{seed}") == _said(tmp_path / "calm")
        names = [mark.name for mark in marks.iterdir()]
        killed += len(names) - 2 * len([name for name in names if name.endswith(".lived")])
        if killed >= KILLS:
            return
    raise AssertionError(f"only {killed} workers were killed")
