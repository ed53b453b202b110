"""A system prompt for records of other tools that have none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mypt_convert.cli import main as convert
from mypt_lint.cli import main as lint
from mypt_records.names import NAMES, TEXTS
from mypt_records.shapes import SHAPES
from mypt_train.commands.prepare import main as prepare
from mypt_view.cli import main as view

SAID = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo"}]
ASKED = [{"role": "user", "content": "Hi"}]
ANSWER = {"role": "assistant", "content": "Yo"}
RECORDS: dict[str, dict[str, Any]] = {
    "openai": {"messages": [*ASKED, ANSWER]},
    "sharegpt": {"conversations": SAID},
    "alpaca": {"instruction": "Hi", "output": "Yo"},
    "completion": {"prompt": "Hi", "completion": "Yo"},
}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps(RECORDS["sharegpt"]) + "\n")
    return path


def test_a_prompt_of_the_command_line(written: Path, tmp_path: Path) -> None:
    given, out = ["--dialect", "mypt", "--system", "S"], str(tmp_path / "sft")
    assert lint([str(written), *given]) == 0
    assert prepare([str(written), *given, "--out", out, "-j", "1"]) == 0
    assert view([str(written), *given]) == 0
    assert lint([str(written), "--dialect", "mypt"]) == 1
    assert prepare([str(written), "--dialect", "mypt", "--out", out + "2", "-j", "1"]) == 2


def test_a_prompt_of_a_file_is_the_same_in_all_commands(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompt, out = tmp_path / "prompt.txt", tmp_path / "out.jsonl"
    prompt.write_text("Be\nbrief.\n")
    given = ["--system-file", str(prompt)]
    assert view([str(written), "--dialect", "mypt", "--text", *given]) == 0
    assert "<myPT_system>Be\nbrief.</myPT_system>" in capsys.readouterr().out
    assert convert([str(written), "-o", str(out), "--to", "mypt", *given]) == 0
    assert json.loads(out.read_text())["system"] == "Be\nbrief."
    with pytest.raises(SystemExit):
        lint([str(written), "--system", "S", *given])


def test_a_resumed_run_has_the_same_prompt(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = [str(written), "--dialect", "mypt", "--out", str(tmp_path / "sft"), "-j", "1"]
    (tmp_path / "mypt-lint.toml").write_text('system = "S"\n')
    settings = ["--config", str(tmp_path / "mypt-lint.toml")]
    assert prepare([*call, *settings]) == 0
    first = (tmp_path / "sft" / "dataset_metadata.json").read_bytes()
    again = [*call[:-3], str(tmp_path / "again"), "-j", "1", "--system", "Other"]
    assert prepare(again) == 0
    assert (tmp_path / "again" / "dataset_metadata.json").read_bytes() != first


def test_records_of_the_dialect_keep_theirs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps({"system": "Own", "messages": [*ASKED, ANSWER]}) + "\n")
    call = [str(path), "--dialect", "mypt", "--system", "S", "--out", str(tmp_path / "sft")]
    assert prepare([*call, "-j", "1"]) == 0
    assert "records of mypt, which --system leaves alone" in capsys.readouterr().err


@pytest.mark.parametrize("shape", RECORDS)
def test_advice_speaks_of_the_records_of_the_user(
    shape: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps(RECORDS[shape]) + "\n")
    assert lint([str(path), "--dialect", "mypt"]) == 1
    said = capsys.readouterr().out
    assert "MYP208" in said
    hint = f"= help: --system TEXT gives it one; or {SHAPES[shape].PROMPT}"
    assert hint in said
    assert said.count("begin with one") == 0


def test_each_shape_says_where_a_prompt_goes() -> None:
    assert [name for name in NAMES if not SHAPES[name].PROMPT] == [TEXTS]
