"""Data and templates as people have them: what the linter says of each, and no more."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from mypt.convert import main as convert
from mypt.lint.cli import main
from tests.support.linting import ROOT, Linter

FOLDER = ROOT / "tests" / "cases"
CASES = tomllib.loads((FOLDER / "cases.toml").read_text(encoding="utf-8"))["case"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["file"])
def test_case(case: dict[str, Any], lint: Linter, folder: Path) -> None:
    path = FOLDER / case["file"]
    words = ["--template"] if case.get("template") else case.get("arguments", [])
    _, findings, _ = lint("--no-config", "-q", *words, path)
    found = [f"{f['code']} {f['location']['row']} {f['severity']}" for f in findings]
    if case.get("template"):
        found = sorted({f"{f['code']} {f['severity']}" for f in findings})
    assert found == case["found"]
    lint.capsys.readouterr()
    main(["--no-config", "-q", *words, str(path)])
    said = lint.capsys.readouterr().out
    assert [words for words in case.get("says", ()) if words not in said] == []
    if case.get("untouched"):
        copy = folder / path.name
        shutil.copy(path, copy)
        main(["--no-config", "-q", "--fix", str(copy)])
        assert copy.read_bytes() == path.read_bytes()


def test_each_file_is_a_case() -> None:
    """But for rows of tokens, which are read on the vocabulary of a model."""
    files = {path.name for path in FOLDER.iterdir()} - {"cases.toml"}
    assert files - {case["file"] for case in CASES} == {"47-rows-assistant-masks.jsonl"}


def test_thoughts_in_answers_are_fixed_and_converted(folder: Path, lint: Linter) -> None:
    shutil.copy(FOLDER / "19-inline-thought.jsonl", "x.jsonl")
    assert convert(["x.jsonl", "-o", "y.jsonl", "--to", "qwen3", "--no-config"]) == 0
    assert main(["--no-config", "-q", "--fix", "--dialect", "qwen3", "x.jsonl"]) == 0
    for name in ("x.jsonl", "y.jsonl"):
        assert "<think>" not in Path(name).read_text()
        assert '"reasoning_content": "Two and two."' in Path(name).read_text()
        assert lint("--no-config", "--dialect", "qwen3", name)[:2] == (0, [])
