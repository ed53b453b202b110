"""Fixtures that tests of several packages share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.examples import either


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


@pytest.fixture(autouse=True, scope="session")
def few_conversations() -> Iterator[None]:
    """Derives formats from half of the conversations in the quick suite."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mypt_lint.derive.derive._LEARNED_ON", either(range(20), range(40)))
        yield
