"""The command `mypt-index`."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mypt.chat import main as chat
from mypt.index import main
from mypt_infer.workspace.index.store import default_index, locked
from tests.support.build import write_texts


@pytest.fixture
def base(tmp_path: Path) -> Path:
    text = "Security Policy v2\n\nPasswords must have 12 characters.\n"
    folder = write_texts(tmp_path / "docs", {"policy.txt": text})
    (folder / "link.txt").symlink_to("/etc/passwd")
    (folder / "b.bin").write_bytes(b"\0\1")
    return folder


def test_it_indexes_and_says_what_it_left_out(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(base)]) == 0
    out, err = capsys.readouterr()
    numbers = "1 documents in 1 chunks: 1 added, 0 changed, 0 removed, 2 files left out"
    assert out == f"{default_index(base)}: {numbers}\n"
    assert err == "left out: 1 x a link\nleft out: 1 x not text: it holds zero bytes\n"
    (base / "new.md").write_text("# [b]New[/b]\n\nPassword managers.\n")
    assert main([str(base), "--verbose"]) == 0
    out, err = capsys.readouterr()
    assert "2 documents in 2 chunks: 1 added, 0 changed" in out
    assert err.startswith("left out: b.bin: not text")
    assert main([str(base), "--quiet", "--search", "managers", "--top-k", "1"]) == 0
    out, err = capsys.readouterr()
    place, text = out.splitlines()
    assert place.startswith(f"{base}/new.md  [b]New[/b]  (new-")
    assert place.endswith("#0)")
    assert text == "    # [b]New[/b] Password managers."
    assert err == ""
    assert {p.name for p in base.iterdir()} == {"policy.txt", "link.txt", "b.bin", "new.md"}


def test_a_text_is_one_hit_and_nothing_is_said_to_be_nothing(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = (base / "policy.txt").read_text()
    (base / "copy.txt").write_text(policy.replace(" ", "  ").replace("\n\n", "\n\n\n"))
    (base / "esc.txt").write_text("Odd \x1b[31m passwords\n\nare here.\n")
    assert main([str(base), "--quiet", "--search", "passwords"]) == 0
    out = capsys.readouterr().out
    assert out.count("Passwords must have 12") == 1
    assert "\x1b" not in out
    assert "Odd \\x1b[31m passwords" in out
    (base / "empty").mkdir()
    assert main([str(base / "empty"), "--quiet", "--search", "passwords"]) == 0
    assert capsys.readouterr() == ("", "mypt-index: nothing found\n")


def test_where_the_index_is(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for named, expected in (("relative", tmp_path / ".cache"), (f"{tmp_path}/x", tmp_path / "x")):
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("XDG_CACHE_HOME", named)
        monkeypatch.setattr("sys.platform", "linux")
        assert default_index(base).parent == expected / "mypt-tags"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("sys.platform", "darwin")
    assert default_index(base).parent == tmp_path / "Library" / "Caches" / "mypt-tags"
    monkeypatch.chdir(base)
    assert default_index(Path()) == default_index(base)
    (tmp_path / "other" / "docs").mkdir(parents=True)
    assert default_index(tmp_path / "other" / "docs") != default_index(base)
    assert main([str(base), "--quiet", "--index-dir", str(base / "policy.txt")]) == 2
    assert "name another folder for the index with --index-dir" in capsys.readouterr().err


def test_what_it_refuses(base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none")]) == 2
    assert "is not a folder" in capsys.readouterr().err
    assert main([str(base), "--index-dir", str(base / "policy.txt")]) == 2
    assert main([str(base), "--search", "x", "--top-k", "99"]) == 2
    assert "top_k is 99" in capsys.readouterr().err
    with locked(default_index(base)):
        assert main([str(base)]) == 2
    assert "another process" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    assert "mypt-index docs/" in capsys.readouterr().out


def test_progress_only_on_a_terminal(base: Path) -> None:
    at_once = "import mypt_cli.progress as p; p._PATIENCE = p._PAUSE = -1"
    run = f"{at_once}; from mypt.index import main; main([{str(base)!r}])"
    command = [sys.executable, "-c", run]
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        env = os.environ | {"TERM": "xterm"}
        subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, check=True, env=env)
        os.close(theirs)
        shown = terminal.read(100_000)
        assert b"reading" in shown
        assert b"1/2 files" in re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", shown)
    plain = subprocess.run(command, capture_output=True, check=True)
    assert b"reading" not in plain.stderr
    assert plain.stderr.startswith(b"left out")


def test_a_chat_uses_the_index_that_another_process_writes(
    base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(base), "--quiet"]) == 0
    (base / "new.txt").write_text("Zeppelins\n\nfloat.\n")
    talk = ["--scripted", "--workspace", str(base)]
    with locked(default_index(base)):
        monkeypatch.setattr("sys.stdin", io.StringIO("passwords"))
        assert chat([*talk]) == 0
        out, err = capsys.readouterr()
        assert "12 characters" in out
        assert "another process is writing this index" in err
        assert err.rstrip().endswith("the index is used as it is")
    monkeypatch.setattr("sys.stdin", io.StringIO("zeppelins"))
    assert chat(talk) == 0
    out, err = capsys.readouterr()
    assert "float" in out
    assert "the index is used as it is" not in err
