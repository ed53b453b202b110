"""Workers that are killed at random points leave the bytes of a run that nobody killed."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mypt_cli.jsonl.names import MANIFEST
from mypt_train.scale.commit import commit
from mypt_train.scale.drive import drive
from mypt_train.scale.launch.local import Local
from mypt_train.scale.planning.plan import write_plan
from tests.support.build import contents
from tests.support.examples import either
from tests.support.plans import LINES, make_all, plan_of

# nox -s scale takes 200.
KILLS = int(os.environ.get("KILLS", either(3, 5)))


def mortal(do: Callable[[int], object], name: str, marks: Path, seed: int, number: int) -> object:
    """Does a unit or task, but kills this process at a random point of its first attempt.

    The point is a number of calls, so that it does not depend on the machine.
    """
    mark = marks / f"{name}-{number}"
    if mark.exists():
        return do(number)
    mark.touch()
    left = int(10 ** random.Random(f"{seed} {mark.name}").uniform(2, 5))

    def counting(*_: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(counting)
    try:
        return do(number)
    finally:
        sys.setprofile(None)
        mark.with_suffix(".lived").touch()


def data_set(folder: Path) -> dict[str, Any]:
    """Returns the files of a data set, and its manifest without the hash of its plan."""
    files: dict[str, Any] = {**contents(folder)}
    files.pop("plan.json", None)
    files[MANIFEST] = json.loads(files[MANIFEST])
    del files[MANIFEST]["plan"]["sha256"]
    return files


@pytest.mark.skipif(os.name != "posix", reason="kills processes")
def test_two_workers_killed_at_random_points(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_bytes(b"".join(LINES * 3))
    options = {"unit": 9000, "group": 20000, "dedup": True}
    calm = plan_of([str(source)], tmp_path / "calm", **options)
    lines = commit(make_all(calm)).manifest["lines"]
    assert lines["lines"] == 3 * len(LINES)

    killed = 0
    for seed in range(KILLS):
        marks = tmp_path / f"marks-{seed}"
        marks.mkdir()
        plan = plan_of([str(source)], tmp_path / f"out-{seed}", **options)
        path = write_plan(plan)

        def engine(do: Callable[[int], object], *, marks: Path = marks, seed: int = seed) -> Local:
            name = "task" if any(marks.iterdir()) else "unit"
            return Local(partial(mortal, do, name, marks, seed), 2)

        assert not drive(plan, path, range(len(plan.units)), engine=engine).aside
        commit(plan, path=path, engine=engine)
        assert data_set(tmp_path / f"out-{seed}") == data_set(tmp_path / "calm")
        names = [mark.name for mark in marks.iterdir()]
        killed += len(names) - 2 * len([name for name in names if name.endswith(".lived")])
        if killed >= KILLS:
            return
    raise AssertionError(f"only {killed} workers were killed")
