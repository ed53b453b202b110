"""Texts that are serialised already: which format they are in, and what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

import mypt_spec
from mypt.lint.cli import main as lint
from mypt.prepare.cli import main as prepare
from mypt.view import main as view
from mypt_convert import Converter
from mypt_records.checks import findings
from mypt_records.shapes import read, shape_of
from mypt_spec.dialect import folder
from tests.support.build import write
from tests.support.vectors import HERE, load

CHATML = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n"


@pytest.mark.parametrize("name", mypt_spec.dialects())
def test_texts_of_each_format_tell_it(name: str) -> None:
    """The tags are those of the token tables, so a format that is added is found out, too."""
    dialect = mypt_spec.dialect(name)
    texts = [vector["compact"] for vector in load(HERE / folder(name).name, "valid_records")]
    assert texts
    for text in texts:
        record = {"text": text}
        assert shape_of(record) == "text", text
        chat = read(record, "text")
        errors = [f for f in findings(chat) if f.severity == "error"]
        assert errors == [], text
        if chat.serialised != name:  # formats may write a plain chat alike
            assert mypt_spec.dialect(chat.serialised).parse(text)[0] is not None
            continue
        episode, _ = dialect.parse(text)
        assert episode is not None
        out = Converter("text", name).record(record)
        assert (out.record, out.losses) == (dialect.write(episode), ()), text


def test_commands_take_the_format_of_the_tags(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [{"text": CHATML}, {"text": CHATML.replace("user", "human")}]
    path = write(tmp_path / "texts.jsonl", *records)
    assert lint([path, "--format", "concise"]) == 1
    assert f"{path}:2:11: MYP240 " in capsys.readouterr().out
    assert view([path, "-n", "1"]) == 0
    assert "chatml" in capsys.readouterr().out
    out = ["--out", str(tmp_path / "sft"), "--on-error", "reject", "-j", "1"]
    assert prepare([path, *out]) == 1
    printed = capsys.readouterr()
    assert "2 lines: 1 written, 1 refused" in printed.out
    assert "checked as chatml" in printed.err
