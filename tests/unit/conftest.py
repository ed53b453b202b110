"""Fixtures that tests of several packages share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def lint(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `mypt-lint`."""
    from tests.support.linting import Linter

    return Linter(capsys)
