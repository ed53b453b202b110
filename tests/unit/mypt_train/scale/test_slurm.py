"""A plan, followed by a cluster of Slurm with one node."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from mypt.prepare.cli import main
from mypt_cli.jsonl.names import MANIFEST, PLAN
from tests.support import slurm
from tests.support.build import contents

ROOT = Path(__file__).parents[4]

_PLANNED = (PLAN, MANIFEST)  # name the folder
pytestmark = pytest.mark.skipif(
    "KILLS" not in os.environ or not slurm.can_start(),
    reason="nox -s scale runs it as root where Slurm (Debian's slurm-wlm) is installed",
)


def test_arrays_make_the_data_set_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples" / "phase1.jsonl", "a.jsonl")
    plan = ["--unit-size", "0.6k", "--group-size", "1k", "--context-length", "256", "--dedup"]
    for out in ("one", "slurm"):
        assert main(["plan", "a.jsonl", "--out", out, *plan]) == 0
    assert main(["run", "--plan", "one"]) == main(["commit", "--plan", "one"]) == 0
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    (tmp_path / "cluster").mkdir()
    with slurm.cluster(tmp_path / "cluster") as env:
        for name, value in (env | {"PATH": paths, "PYTHONPATH": str(ROOT)}).items():
            monkeypatch.setenv(name, value)
        handed = ["--plan", "slurm", "--launcher", "slurm", "--jobs", "2"]
        for command in ("run", "commit"):
            assert main([command, *handed]) == 0
            slurm.wait(["squeue", "-h"], env, "")
    out = capsys.readouterr().out
    assert "2 units: 0 to 1\n  when squeue is empty: mypt-prepare status --plan slurm" in out
    assert "2 tasks: 0 to 1\n" in out
    assert "1 task: 2\n" in out
    assert main(["commit", "--plan", "slurm"]) == 0
    mine, theirs = ({n: b for n, b in contents(Path(out)).items() if n not in _PLANNED}
                     for out in ("slurm", "one"))  # fmt: skip
    assert mine == theirs
    assert len(mine) > 4
