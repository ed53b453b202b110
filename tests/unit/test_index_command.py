"""The command `mypt-index`."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from mypt_infer.workspace.cli import main
from mypt_infer.workspace.store import locked


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "policy.txt").write_text("Security Policy v2\n\nPasswords must have 12 characters.\n")
    (folder / "link.txt").symlink_to("/etc/passwd")
    (folder / "b.bin").write_bytes(b"\0\1")
    return folder


def test_it_indexes_and_says_what_it_left_out(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(base)]) == 0
    out, err = capsys.readouterr()
    assert (
        out
        == f"{base}/.mypt-index: 1 documents in 1 chunks: 1 added, 0 changed, 0 removed, 2 files left out\n"
    )
    assert err == "left out: 1 x a link\nleft out: 1 x not text: it holds zero bytes\n"
    (base / "new.md").write_text("# [b]New[/b]\n\nPassword managers.\n")
    assert main([str(base), "--verbose"]) == 0
    out, err = capsys.readouterr()
    assert "2 documents in 2 chunks: 1 added, 0 changed" in out
    assert err.startswith("left out: b.bin: not text")
    assert main([str(base), "--quiet", "--search", "managers", "--top-k", "1"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].endswith("#0  [b]New[/b]")
    assert err == ""


def test_what_it_refuses(base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none")]) == 2
    assert "is no folder" in capsys.readouterr().err
    assert main([str(base), "--index-dir", str(base / "policy.txt")]) == 2
    assert main([str(base), "--search", "x", "--top-k", "99"]) == 2
    assert "top_k is 99" in capsys.readouterr().err
    with locked(base / ".mypt-index"):
        assert main([str(base)]) == 2
    assert "another process" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    assert "mypt-index docs/" in capsys.readouterr().out


def test_progress_only_on_a_terminal(base: Path) -> None:
    command = [sys.executable, "-m", "mypt_infer.workspace.cli", str(base)]
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=theirs,
            check=True,
            env=os.environ | {"TERM": "xterm"},
        )
        os.close(theirs)
        assert b"1 files  " in terminal.read(100_000)
    plain = subprocess.run(command, capture_output=True, check=True)
    assert b"1 files  " not in plain.stderr
    assert plain.stderr.startswith(b"left out")
