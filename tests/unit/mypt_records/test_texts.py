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


LLAMA2 = "<s>[INST] Hi [/INST] Yo </s>"
GEMMA = "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nYo<end_of_turn>\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (CHATML.rstrip(), "chatml"),
        (f"{CHATML}<|endoftext|>", "chatml"),
        (GEMMA, "gemma2"),
        (f"<bos>{GEMMA}", "gemma2"),
        (f"<bos>{GEMMA.rstrip()}<eos>", "gemma2"),
        (LLAMA2.removeprefix("<s>"), "mistral"),
        (LLAMA2 * 2, "mistral"),
    ],
)
def test_texts_may_be_framed_by_a_trainer(text: str, name: str, tmp_path: Path) -> None:
    """What it adds may be missing, or there already: the first token, the last, a line end."""
    chat = read({"text": text}, "text")
    assert (shape_of({"text": text}), chat.serialised, findings(chat)) == ("text", name, [])
    out = Converter("text", "chatml").record({"text": text})
    assert len(out.record["messages"]) == 2 * text.count("Hi")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"<s>{LLAMA2}", "MYP219"),
        (CHATML.replace("Yo<|im_end|>\n", "Yo"), "MYP211"),
        (GEMMA.replace("<end_of_turn>", "", 1), "MYP104"),
        ("<s>[INST] Write strike of x [/INST] Use <b><s> here</s>", "MYP220"),
        (f"{CHATML.rstrip()}<|im_end|>", "MYP212"),
        (f"{LLAMA2}</s>", "MYP212"),
        (f"{CHATML}<b>", "MYP210"),
        (CHATML.replace("Yo<|im_end|>\n", "Use <b>"), "MYP211"),
        (CHATML.replace("Yo<|im_end|>\n", "Yo</s>"), "MYP211"),
        (CHATML.replace("Yo<|im_end|>\n", "Yo<|im_end>"), "MYP303"),
    ],
)
def test_a_frame_hides_no_fault(text: str, code: str) -> None:
    reported = [f.code for f in findings(read({"text": text}, "text"))]
    assert (shape_of({"text": text}), reported) == ("text", [code])


@pytest.mark.parametrize("end", ["</s>", "<eos>"])
def test_tags_of_a_format_with_other_ends_are_text(end: str) -> None:
    """GabGPT has tags of Zephyr, which ends its turns otherwise."""
    text = f"<|user|>\nHi{end}\n<|assistant|>\nYo{end}"
    assert shape_of({"text": text}) == "plain"
    assert shape_of({"text": text.replace(end, "<|end|>")}) == "text"


@pytest.mark.parametrize(
    ("begin", "end"), [("", "</s>"), ("<s>", "</s>\n"), ("", "<|im_end|>"), ("<bos>", "<eos>")]
)
def test_tokens_around_a_text_are_no_format(begin: str, end: str) -> None:
    """Trainers that know no template put them around all texts, such as Alpaca's."""
    text = f"{begin}### Instruction:\nAdd.\n\n### Response:\n4{end}"
    assert shape_of({"text": text}) == "plain"
