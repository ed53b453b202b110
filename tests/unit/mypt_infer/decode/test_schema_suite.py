"""`nox -s schema_suite` runs: it needs files that are no part of this repository, so it is run rarely."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("llguidance", reason="the benchmark compares with it")
from bench import schema_suite


def test_a_suite_of_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fits, not_so = {"data": 3, "valid": True}, {"data": "3", "valid": False}
    groups = [
        {"schema": {"type": "integer"}, "tests": [fits, not_so]},
        {"schema": {"type": "array", "uniqueItems": True}, "tests": [fits]},
    ]
    (tmp_path / "type.json").write_text(json.dumps(groups))
    monkeypatch.setattr(sys, "argv", ["schema_suite", str(tmp_path)])
    schema_suite.main()
    rows = capsys.readouterr().out.splitlines()
    assert rows[2:4] == [
        "| type | 1 of 2 | 1 of 1 | 1 of 1 |",
        "| all | 1 of 2 | 1 of 1 | 1 of 1 |",
    ]
