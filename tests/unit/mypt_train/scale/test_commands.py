"""Units as commands for shells."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mypt.prepare.cli import main
from mypt_train import ShardReader
from mypt_train.scale.launch import commands, ranges

ROOT = Path(__file__).parents[4]
RUN = "mypt-prepare run --plan 'p 1.json' --units"
UNITS = st.sets(st.integers(0, 60), min_size=1).map(sorted)


def _units(text: str) -> list[int]:
    """Reads numbers as `--units` does."""
    pairs = [piece.partition("-") for piece in text.split(",")]
    return [n for a, _, b in pairs for n in range(int(a), int(b or a) + 1)]


@given(UNITS, st.integers(1, 70))
def test_commands_run_each_unit_once(units: list[int], jobs: int) -> None:
    lines = [line.split(" && ") for line in commands(RUN, units, jobs, "/a b")]
    assert all(shlex.split(place) == ["cd", "/a b"] for place, _ in lines)
    words = [shlex.split(line) for _, line in lines]
    assert len(words) == min(jobs, len(units))
    assert {tuple(line[:-1]) for line in words} == {
        ("mypt-prepare", "run", "--plan", "p 1.json", "--units")
    }
    assert [n for line in words for n in _units(line[-1])] == units


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
    assert len(printed) == 2 + 1 + 2 + 1  # units, comparing, packing, and a note
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
