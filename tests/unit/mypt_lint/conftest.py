"""Fixtures of the linter's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.linting import Linter


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def lint(capsys: pytest.CaptureFixture[str]) -> Linter:
    """Runs `mypt-lint`."""
    return Linter(capsys)
