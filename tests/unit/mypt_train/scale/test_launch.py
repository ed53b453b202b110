"""Units run by engines: what is done, what is tried again, and what happens to killed workers."""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from mypt_train.scale.launch.local import Local
from mypt_train.scale.launch.queue import Attempt, attempts
from tests.support.programs import python


def touch(folder: Path, killed: frozenset[int], unit: int) -> int:
    """Makes a file for a unit, and returns twice its number; kills this process instead at the first attempt of some."""
    mark = folder / f"{unit}.tried"
    if unit in killed and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if unit == 3:
        raise ValueError("line 1 is missing")
    (folder / f"{unit}.done").write_text(str(os.getpid()))
    return 2 * unit


def _check(ended: list[Attempt], folder: Path) -> None:
    assert sorted(folder.glob("*.done")) == sorted(folder / f"{n}.done" for n in (0, 1, 2, 4, 5))
    assert {a.unit: a.result for a in ended if not a.error} == {0: 0, 1: 2, 2: 4, 4: 8, 5: 10}
    assert [(a.number, a.last) for a in ended if a.unit == 3] == [(1, False), (2, False), (3, True)]
    assert all("line 1 is missing" in a.error for a in ended if a.unit == 3)
    assert [bool(a.error) for a in ended if a.unit == 1] == [True, False]


def test_processes_run_units_and_outlive_a_kill(tmp_path: Path) -> None:
    with Local(partial(touch, tmp_path, frozenset([1])), 2) as engine:
        ended = list(attempts(range(6), engine))
    _check(ended, tmp_path)
    assert "killed" in next(a.error for a in ended if a.unit == 1)
    assert str(os.getpid()) not in {file.read_text() for file in tmp_path.glob("*.done")}


def interrupted(_: int) -> None:
    """Does to this process what Ctrl-C does."""
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(10)


def test_processes_end_at_once_and_say_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with Local(interrupted, 1) as engine:
        engine.start(0)
        assert "killed" in engine.ended().error
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(sys.platform != "linux", reason="sockets have other names elsewhere")
def test_a_folder_whose_name_is_too_long(tmp_path: Path) -> None:
    (tmp_path / ("x" * 100)).mkdir()
    code = "from mypt_train.scale.launch.local import Local\nLocal(print, 1).start(0)"
    env = {**os.environ, "TMPDIR": str(tmp_path / ("x" * 100))}
    assert "set TMPDIR to a shorter one" in python(code, env=env).stderr
