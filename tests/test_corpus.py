"""Inputs that once broke an invariant, and hard ones picked by hand, never break it again."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from fuzz.driver import CORPUS, INVARIANTS, load

# Times depend on the machine: its tests are tests/unit/mypt_lint/test_growth.py.
MEASURED = {"growth"}
FILES = sorted(
    path
    for path in CORPUS.glob("*/*")
    if path.suffix in (".json", ".bin") and path.parent.name not in MEASURED
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem[:12]}")
def test_replay(path: Path) -> None:
    import_module(f"fuzz.{path.parent.name}").check(load(path))


def test_every_invariant_has_a_corpus() -> None:
    assert {path.parent.name for path in FILES} == set(INVARIANTS) - MEASURED
