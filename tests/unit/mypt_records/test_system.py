"""A system prompt for records of other tools that have none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mypt.convert import main as convert
from mypt.lint.cli import main as lint
from mypt.prepare.cli import main as prepare
from mypt.view import main as view
from mypt_records.names import NAMES, TEXTS
from mypt_records.shapes import SHAPES
from tests.support.build import chat, native, read, write

RECORDS: dict[str, dict[str, Any]] = {
    "openai": chat(),
    "sharegpt": {
        "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo"}]
    },
    "alpaca": {"instruction": "Hi", "output": "Yo"},
    "completion": {"prompt": "Hi", "completion": "Yo"},
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return write(tmp_path / "records.jsonl", RECORDS["sharegpt"])


def test_a_prompt_of_the_command_line(path: str, tmp_path: Path) -> None:
    prompt, out = ["--dialect", "mypt", "--system", "S"], str(tmp_path / "sft")
    assert lint([path, *prompt]) == 0
    assert prepare([path, *prompt, "--out", out, "-j", "1"]) == 0
    assert view([path, *prompt]) == 0
    assert lint([path, "--dialect", "mypt"]) == 1
    assert prepare([path, "--dialect", "mypt", "--out", out + "2", "-j", "1"]) == 2


def test_a_prompt_of_a_file_is_the_same_in_all_commands(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompt, out = tmp_path / "prompt.txt", tmp_path / "out.jsonl"
    prompt.write_text("Be\nbrief.\n")
    option = ["--system-file", str(prompt)]
    assert view([path, "--dialect", "mypt", "--text", *option]) == 0
    assert "<myPT_system>Be\nbrief.</myPT_system>" in capsys.readouterr().out
    assert convert([path, "-o", str(out), "--to", "mypt", *option]) == 0
    assert read(out)[0]["system"] == "Be\nbrief."
    with pytest.raises(SystemExit):
        lint([path, "--system", "S", *option])


def test_a_resumed_run_has_the_same_prompt(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = [path, "--dialect", "mypt", "--out", str(tmp_path / "sft"), "-j", "1"]
    (tmp_path / "mypt-lint.toml").write_text('system = "S"\n')
    settings = ["--config", str(tmp_path / "mypt-lint.toml")]
    assert prepare([*call, *settings]) == 0
    first = (tmp_path / "sft" / "dataset_metadata.json").read_bytes()
    again = [*call[:-3], str(tmp_path / "again"), "-j", "1", "--system", "Other"]
    assert prepare(again) == 0
    assert (tmp_path / "again" / "dataset_metadata.json").read_bytes() != first


@pytest.mark.parametrize("dialect", ["mypt", "qwen3"])
def test_a_prompt_that_would_change_nothing_is_refused(
    dialect: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Records that the dialect reads itself have their own; by their shape they get this one."""
    record = native() if dialect == "mypt" else chat()
    own = write(tmp_path / "own.jsonl", record)
    call = [own, "--dialect", dialect, "--system", "Other"]
    assert lint(call) == 2
    assert prepare([*call, "--vocab", "gpt2", "--out", str(tmp_path / "sft"), "-j", "1"]) == 2
    assert f"--system changes no records of {dialect}" in capsys.readouterr().err
    (tmp_path / "mypt-lint.toml").write_text('system = "S"\n')
    assert lint([*call[:3], "--config", str(tmp_path / "mypt-lint.toml")]) == 0
    if dialect == "qwen3":
        capsys.readouterr()
        assert view([*call, "--records", "openai", "--text"]) == 0
        assert "<|im_start|>system\nOther<|im_end|>" in capsys.readouterr().out


@pytest.mark.parametrize("shape", RECORDS)
def test_advice_speaks_of_the_records_of_the_user(
    shape: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lint([write(tmp_path / "x.jsonl", RECORDS[shape]), "--dialect", "mypt"]) == 1
    out = capsys.readouterr().out
    assert "MYP208" in out
    ways = filter(None, ["= help: --system TEXT gives it one", SHAPES[shape].PROMPT])
    assert "; or ".join(ways) + "\n" in out
    assert out.count("begin with one") == 0


def test_each_shape_says_where_a_prompt_goes() -> None:
    without = {name for name in NAMES if not SHAPES[name].PROMPT}
    assert without == {TEXTS, "plain", "claude-code", "codex", "pi"}
