"""Fixtures that tests of several packages share."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mypt_spec.templates.bounds import Bounded
from tests.support.examples import either

_START, _OUTCOMES = Bounded.start, Bounded._outcomes


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
def templates_here() -> Iterator[None]:
    """Renders templates in this process: it has millions of objects, and takes long to fork."""

    def outcomes(self: Any, calls: Any) -> list[tuple[Any, Exception | None]]:
        out: list[tuple[Any, Exception | None]] = []
        for call in pickle.loads(pickle.dumps(calls)):
            try:
                self.work = getattr(self, "work", None) or self._make(*self._args)
                out.append((self.work(*call), None))
            except Exception as error:
                out.append((None, error))
        return out

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bounded, "start", lambda _: None)
        patch.setattr(Bounded, "_outcomes", outcomes)
        yield


@pytest.fixture(autouse=True, scope="session")
def few_conversations() -> Iterator[None]:
    """Derives formats from half of the conversations in the quick suite."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mypt_lint.derive.derive._LEARNED_ON", either(range(20), range(40)))
        yield


@pytest.fixture
def templates_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renders templates in a process of its own, as the product does."""
    monkeypatch.setattr(Bounded, "start", _START)
    monkeypatch.setattr(Bounded, "_outcomes", _OUTCOMES)
