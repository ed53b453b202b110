"""`--dialect auto`, in the commands that read data or a checkpoint."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from mypt.chat import main as chat
from mypt.convert import main as convert
from mypt.synth import main as synth
from mypt.vocab import main as vocab
from mypt_model.folder import TRAINER, dialect_of
from tests.support.build import write


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    assert synth(["--phase", "4", "-n", "20", "-q", "-o", str(folder / "a.jsonl")]) == 0
    return folder


def test_vocab_finds_the_dialect(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The vocabulary is that of the dialect named, and two dialects are named in one error."""
    source, other = str(data / "a.jsonl"), str(tmp_path / "b.jsonl")
    to = ["--to", "usf-omega", "--on-loss", "drop", "-q", "-o", other]
    assert convert([source, *to]) == 0
    ranks = []
    for name in ("auto", "usf-omega"):
        out = tmp_path / f"{name}.tiktoken"
        assert vocab([other, "--size", "300", "-q", "--dialect", name, "-o", str(out)]) == 0
        ranks.append(out.read_bytes())
    assert ranks[0] == ranks[1]
    assert vocab([source, other, "--dialect", "auto", "-q", "-o", str(tmp_path / "c")]) == 2
    errors = capsys.readouterr().err
    assert f"{source} is mypt, {other} is usf-omega; choose with --dialect" in errors


def test_vocab_says_where_it_cannot_find_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "x.jsonl", {"a": 1})
    assert vocab([path, "--dialect", "auto", "-o", str(tmp_path / "v")]) == 2
    assert "no dialect fits the records; choose --dialect" in capsys.readouterr().err


def test_vocab_leaves_own_files_out(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reject = {"file": "a", "line": 1, "status": "refused", "findings": []}
    write(data / "rejects.jsonl", reject)
    assert vocab([str(data), "--size", "300", "-o", str(tmp_path / "v")]) == 0
    assert "1 file left out (1 rejects of mypt-prepare)" in capsys.readouterr().err


def test_synth_takes_auto_for_mypt(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["--phase", "2", "-n", "5", "-q"]
    assert synth(args) == 0
    usual = capsys.readouterr().out
    assert synth([*args, "--dialect", "auto"]) == 0
    assert capsys.readouterr().out == usual


def test_the_dialect_of_a_checkpoint(tmp_path: Path) -> None:
    """mypt-chat, mypt-generate and mypt-export ask here."""
    assert dialect_of(tmp_path, choice="auto", default="mypt") == "mypt"
    (tmp_path / TRAINER).write_text(json.dumps({"data": {"dialect": "praxis"}}))
    assert dialect_of(tmp_path, choice="auto", default="mypt") == "praxis"


def test_chat_without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Hi\n"))
    assert chat(["--scripted", "--dialect", "auto"]) == 0
