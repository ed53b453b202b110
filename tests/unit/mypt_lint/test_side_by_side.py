"""`python -m bench.side` prints a row for each side, with its time as a multiple of ours."""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path

import pytest

from bench import side


def test_rows_of_sides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("300000\n" * 2)
    script = "import sys; [sum(range(int(n))) for n in open(sys.argv[1])]"
    sides: dict[str, side.Command] = {
        "mypt": lambda file: [sys.executable, "-S", "-c", script, str(file)],
        "broken": lambda _: [sys.executable, "-S", "-c", "raise SystemExit(3)"],
    }
    side.compare("numbers", path, sides, 1)
    broken, row = capsys.readouterr().out.splitlines()
    assert broken == "| numbers | broken | ends with status 3 | | |"
    assert re.fullmatch(r"\| numbers, 0\.0 MB \| mypt \| [\d.]+ \| -?[\d.]+ \| 1\.00 \|", row)
    assert (tmp_path / "a-1.jsonl").read_text() == "300000\n"


def test_traces_are_linked_and_have_results(tmp_path: Path) -> None:
    folder = side.traces(tmp_path / "traces", 3_000, one=2_000)
    assert len(side.names(folder)) == 2
    first, *others = [*side.events(random.Random(1), "s", 2_000)]
    assert first["parentUuid"] is None
    assert [event["parentUuid"] for event in others] == [
        event["uuid"] for event in [first, *others[:-1]]
    ]
    calls = re.findall(r'"id": "(toolu_\d+)"', json.dumps(others))
    assert calls == re.findall(r'"tool_use_id": "(toolu_\d+)"', json.dumps(others))
    assert calls
