"""Records of other tools in a format of one's own, which a `records.toml` describes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tests.toy
from mypt.lint.cli import main as lint
from mypt.own_format.begin import begin
from mypt.prepare.cli import main as prepare
from mypt.view import main as view
from mypt_convert import Converter
from tests.support.build import assistant, call, calls, chat, user, write

GPT = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo"}]}
THOUGHT = assistant("Yo", reasoning_content="Hm")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    begin(tmp_path / "my_format")
    return tmp_path / "my_format"


@pytest.mark.parametrize(
    "record", [GPT, {"instruction": "Hi", "output": "Yo"}, {"prompt": "Hi", "completion": "Yo"}]
)
def test_all_commands_read_them(
    own: Path, record: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [write(own.parent / "x.jsonl", record), "--dialect", f"{own}/"]
    assert lint(words) == 0
    assert "checked as" in capsys.readouterr().err
    assert view([*words, "--text"]) == 0
    assert capsys.readouterr().out.strip() == "<|user|>Hi<|end|><|assistant|>Yo<|end|>"
    assert prepare([*words, "--out", str(own.parent / "sft"), "-j", "1"]) == 0


def test_what_the_format_cannot_say_is_found(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = chat(user(), calls(call("f", "{}", id="a"), content=None), THOUGHT)
    path = write(own.parent / "x.jsonl", record)
    lint([path, "--dialect", f"{own}/", "--records", "openai", "--format", "concise"])
    out = capsys.readouterr().out
    assert "MYP114 not-in-the-format: tool_calls: my-format has no place for it" in out
    assert "think" not in out


def test_its_own_names_of_roles_and_its_thoughts(own: Path) -> None:
    declared = own / "records.toml"
    text = declared.read_text().replace('role = "user"\n', 'role = "student"\nblock = "user"\n')
    text = text.replace('aliases = ["human"]', 'aliases = ["human", "user"]')
    text = text.replace('role = "assistant"\n', 'role = "tutor"\nblock = "assistant"\n')
    declared.write_text(text.replace('aliases = ["gpt"]', 'aliases = ["gpt", "assistant"]'))
    out = Converter("openai", f"{own}/").record(chat(user(), THOUGHT))
    assert (out.losses, out.findings) == ((), ())
    tutor = {"role": "tutor", "think": "Hm", "content": "Yo"}
    assert out.record == chat({"role": "student", "content": "Hi"}, tutor)


def test_a_format_without_declared_records_reads_its_own_alone(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (own / "records.toml").unlink()
    (own / "adapter.py").write_text((Path(tests.toy.__file__).parent / "adapter.py").read_text())
    path = write(own.parent / "x.jsonl", GPT)
    assert lint([path, "--dialect", f"{own}/", "--records", "sharegpt"]) == 2
    assert "reads its own records alone" in capsys.readouterr().err
