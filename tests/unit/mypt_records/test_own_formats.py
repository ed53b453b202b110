"""Records of other tools in a format of one's own, which a `records.toml` describes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tests.toy
from mypt_convert import Converter
from mypt_lint.cli import main as lint
from mypt_lint.own.begin import begin
from mypt_train.commands.prepare import main as prepare
from mypt_view.cli import main as view

GPT = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo"}]}
THOUGHT = {"role": "assistant", "content": "Yo", "reasoning_content": "Hm"}
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.fixture
def own(tmp_path: Path) -> Path:
    begin(tmp_path / "my_format")
    return tmp_path / "my_format"


def written(own: Path, record: dict[str, Any], name: str = "x.jsonl") -> str:
    path = own.parent / name
    path.write_text(json.dumps(record) + "\n")
    return str(path)


@pytest.mark.parametrize(
    "record", [GPT, {"instruction": "Hi", "output": "Yo"}, {"prompt": "Hi", "completion": "Yo"}]
)
def test_all_commands_read_them(
    own: Path, record: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    given = [written(own, record), "--dialect", f"{own}/"]
    assert lint(given) == 0
    assert "checked as" in capsys.readouterr().err
    assert view([*given, "--text"]) == 0
    assert capsys.readouterr().out.strip() == "<|user|>Hi<|end|><|assistant|>Yo<|end|>"
    assert prepare([*given, "--out", str(own.parent / "sft"), "-j", "1"]) == 0


def test_what_the_format_cannot_say_is_found(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    record = {"messages": [{"role": "user", "content": "Hi"}, said, THOUGHT]}
    path = written(own, record)
    lint([path, "--dialect", f"{own}/", "--records", "openai", "--format", "concise"])
    found = capsys.readouterr().out
    assert "MYP114 not-in-the-format: tool_calls: my-format has no place for it" in found
    assert "think" not in found


def test_its_own_names_of_roles_and_its_thoughts(own: Path) -> None:
    declared = own / "records.toml"
    text = declared.read_text().replace('role = "user"\n', 'role = "student"\nblock = "user"\n')
    text = text.replace('aliases = ["human"]', 'aliases = ["human", "user"]')
    text = text.replace('role = "assistant"\n', 'role = "tutor"\nblock = "assistant"\n')
    declared.write_text(text.replace('aliases = ["gpt"]', 'aliases = ["gpt", "assistant"]'))
    record = {"messages": [{"role": "user", "content": "Hi"}, THOUGHT]}
    out = Converter("openai", f"{own}/").record(record)
    assert (out.losses, out.findings) == ((), ())
    assert out.record == {
        "messages": [
            {"role": "student", "content": "Hi"},
            {"role": "tutor", "think": "Hm", "content": "Yo"},
        ]
    }


def test_a_format_without_declared_records_reads_its_own_alone(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (own / "records.toml").unlink()
    (own / "adapter.py").write_text((Path(tests.toy.__file__).parent / "adapter.py").read_text())
    path = written(own, GPT)
    assert lint([path, "--dialect", f"{own}/", "--records", "sharegpt"]) == 2
    assert "reads its own records alone" in capsys.readouterr().err
