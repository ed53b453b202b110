"""Workers that are killed at random points leave the bytes of a run that nobody killed."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mypt_cli.jsonl.names import MANIFEST
from mypt_train.scale.commit import commit
from mypt_train.scale.groups import make_group
from mypt_train.scale.planning.plan import PlanError, write_plan
from mypt_train.scale.processes import KilledError, outcomes
from mypt_train.scale.run import make
from mypt_train.scale.state import missing_units
from tests.support.build import contents
from tests.support.examples import either
from tests.support.plans import LINES, make_all, plan_of

# nox -s scale takes 200.
KILLS = int(os.environ.get("KILLS", either(3, 5)))


def mortal(do: Callable[..., Any], name: str, marks: Path, seed: int, *args: Any) -> Any:
    """Makes a unit or group, but kills this process at a random point of its first attempt.

    The point is a number of calls, so that it does not depend on the machine.
    """
    mark = marks / f"{name}-{args[-1]}"
    if mark.exists():
        return do(*args)
    mark.touch()
    left = int(10 ** random.Random(f"{seed} {mark.name}").uniform(2, 5))

    def counting(*_: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(counting)
    try:
        return do(*args)
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
def test_two_workers_killed_at_random_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        write_plan(plan)
        while units := missing_units(plan):
            with suppress(KilledError):
                do = partial(mortal, make, "unit", marks, seed, plan)
                assert [o for _, o in outcomes(plan, do, units, 2)] == [True] * len(units)
        with monkeypatch.context() as patched:
            module = sys.modules["mypt_train.scale.commit"]
            packs = partial(mortal, make_group, "group", marks, seed)
            patched.setattr(module, "make_group", packs)
            while not (tmp_path / f"out-{seed}" / MANIFEST).exists():
                with suppress(PlanError):
                    commit(plan, jobs=2)
        assert data_set(tmp_path / f"out-{seed}") == data_set(tmp_path / "calm")
        names = [mark.name for mark in marks.iterdir()]
        killed += len(names) - 2 * len([name for name in names if name.endswith(".lived")])
        if killed >= KILLS:
            return
    raise AssertionError(f"only {killed} workers were killed")
