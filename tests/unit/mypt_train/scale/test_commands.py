"""Units as commands: for shells, and as an array of Slurm."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mypt.prepare.cli import main
from mypt_cli.errors import UsageError
from mypt_train import ShardReader
from mypt_train.scale.launch import choice, ranges
from mypt_train.scale.launch.choice import commands
from tests import support

ROOT = Path(__file__).parents[4]
RUN = "mypt-prepare run --plan 'p 1.json' --units"
UNITS = st.sets(st.integers(0, 60), min_size=1).map(sorted)


def _units(text: str) -> list[int]:
    """Reads numbers as `--units` does."""
    pairs = [piece.partition("-") for piece in text.split(",")]
    return [n for a, _, b in pairs for n in range(int(a), int(b or a) + 1)]


@given(UNITS, st.integers(1, 70))
def test_commands_run_each_unit_once(units: list[int], jobs: int) -> None:
    words = [shlex.split(line) for line in commands(RUN, units, jobs)]
    assert len(words) == min(jobs, len(units))
    assert {tuple(line[:-1]) for line in words} == {
        ("mypt-prepare", "run", "--plan", "p 1.json", "--units")
    }
    assert [n for line in words for n in _units(line[-1])] == units


def _slurm_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts a stand-in for sbatch on the path, and a mypt-prepare that writes what it was asked."""
    tools = folder / "bin"
    tools.mkdir()
    sbatch = shutil.copy(Path(support.__path__[0]) / "sbatch.py", tools / "sbatch")
    Path(sbatch).write_text(f"#!{sys.executable}\n" + Path(sbatch).read_text())
    prepare = tools / "mypt-prepare"
    prepare.write_text('#!/bin/sh\nfor a; do echo "$a"; done > "$5".asked\n')
    for file in (Path(sbatch), prepare):
        file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.chdir(folder)


@pytest.mark.parametrize(
    ("units", "tasks"), [([0, 1, 2, 7], 4), ([5, 2000], 2), ([*range(40), 41], 6)]
)
def test_each_task_of_the_array_runs_its_units(
    units: list[int], tasks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _slurm_here(tmp_path, monkeypatch)
    monkeypatch.setattr(choice, "MOST", 6 if len(units) > 6 else choice.MOST)

    assert choice.submit(RUN, units, tmp_path / "run.sbatch", jobs=2) == "7"

    tasks_run = [file.read_text().splitlines() for file in tmp_path.glob("*.asked")]
    assert all(words[:4] == ["run", "--plan", "p 1.json", "--units"] for words in tasks_run)
    assert sorted(n for words in tasks_run for n in _units(words[4])) == units
    assert len(tasks_run) == tasks == len([*tmp_path.glob("slurm-7_*.out")])


def test_what_slurm_says_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "run.sbatch"
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="submit it where there is one: sbatch"):
        choice.submit("p", [1], file)
    assert "--array=1\n" in file.read_text()
    refusing = tmp_path / "sbatch"
    refusing.write_text("#!/bin/sh\necho 'sbatch: error: invalid partition' >&2\nexit 1\n")
    refusing.chmod(0o755)
    with pytest.raises(UsageError, match="invalid partition"):
        choice.submit("p", [1], file)


def test_printed_commands_make_the_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_bytes((ROOT / "examples" / "phase1.jsonl").read_bytes() * 2)
    sizes = ["--unit-size", "0.4k", "--group-size", "0.9k", "--context-length", "256"]
    assert main(["plan", "a.jsonl", "--out", "my data", "--dedup", *sizes]) == 0
    printed = []
    for command in ("run", "commit"):
        capsys.readouterr()
        assert main([command, "--plan", "my data", "--launcher", "shell", "--jobs", "2"]) == 0
        commands = capsys.readouterr().out.splitlines()
        printed += commands
        for line in commands:
            if not line.startswith("#"):
                place, words = line.split(" && ")
                assert place == f"cd {tmp_path}"
                assert main(shlex.split(words)[1:]) == 0
    assert len(printed) == 2 + 2 + 1 + 1 + 1 + 2  # units, dividing, comparing, packing, and notes
    assert printed[2].endswith("mypt-prepare commit --plan 'my data' --tasks 0")
    capsys.readouterr()
    assert main(["status", "--plan", "my data"]) == 0
    assert "packed: 3 of 3 groups" in capsys.readouterr().out
    assert main(["commit", "--plan", "my data"]) == 0
    assert ShardReader("my data", verify=True).manifest["lines"]["duplicate"] == 6
    assert main(["commit", "--plan", "my data", "--tasks", "0"]) == 0
    assert "is committed; nothing to do" in capsys.readouterr().out


@given(UNITS)
def test_ranges_are_read_back(units: list[int]) -> None:
    assert _units(ranges(units)) == units
