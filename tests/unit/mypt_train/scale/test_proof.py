"""Inputs that change are seen, with as few looks at their bytes as that needs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mypt_cli.jsonl.paths import expand
from mypt_lint.settings.settings import NO_SETTINGS
from mypt_train.scale import run
from mypt_train.scale.planning import proof
from mypt_train.scale.planning.cut import cut_inputs
from mypt_train.scale.planning.proof import ChangedError, prove
from mypt_train.scale.run import run_unit
from tests.support.plans import LINES, plan_of

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs times of change")


def rewritten(path: Path, data: bytes) -> None:
    """Writes a file of equal size, and puts back the time at which it was written."""
    before = path.stat()
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # the clock of files is coarse
        path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the files that are hashed for a proof from now on."""
    names, real = list[str](), proof.digest

    def noting(stream: Any, *more: Any) -> str:
        names.append(stream.name)
        return real(stream, *more)

    monkeypatch.setattr(proof, "digest", noting)
    return names


def test_a_file_that_nobody_has_written_to_is_not_hashed_again(
    tmp_path: Path, hashed: list[str]
) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"".join(LINES))
    (source,), _ = cut_inputs(expand([str(path)]), [NO_SETTINGS], size=900)
    prove(source)
    assert hashed == []
    rewritten(path, path.read_bytes())
    prove(source)
    assert hashed == [str(path)], "the same bytes, but that has to be looked at"
    rewritten(path, path.read_bytes()[::-1])
    with pytest.raises(ChangedError, match="has another SHA-256 than was planned"):
        prove(source)


def test_what_is_proved_is_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "BATCH", 200)
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"".join(LINES))
    plan = plan_of([str(path)], tmp_path / "out")
    run_unit(plan, 0)
    altered = bytearray(b"".join(LINES))
    altered[850] ^= 1

    def alter(_: int) -> None:
        if path.read_bytes() != altered:
            rewritten(path, bytes(altered))

    with pytest.raises(ChangedError, match="has another SHA-256 than was planned"):
        run_unit(plan, 0, progress=alter)
