"""Vocabularies without tokens for some bytes: only a text that needs one is a finding."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_infer.decode import Decoder
from mypt_spec.tokenizer.sources import read_vocabulary
from mypt_spec.tokenizer.tokenizer import gpt2_ranks
from mypt_spec.tokenizer.vocabulary import GPT2_PATTERN, JSON_FILE, from_tokens
from tests.support.build import function
from tests.support.decoding import prompt, walk

LACKS = b"\x04\x13\xf1\xf5\xff"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokens = [t for t in gpt2_ranks() if len(t) == 1 or t.isascii()][:3000]
    kept = [t for t in tokens if not set(t) & set(LACKS)]
    vocabulary = from_tokens({token: at for at, token in enumerate(kept)}, {}, (GPT2_PATTERN,))
    file = tmp_path_factory.mktemp("vocabulary") / JSON_FILE
    file.write_bytes(vocabulary.data)
    return file


def record(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "Yo"}]}


def test_what_lacks_is_told_by_the_vocabulary(path: Path) -> None:
    vocabulary = read_vocabulary(path)
    assert vocabulary.lacks == LACKS
    assert mypt_spec.dialect("qwen3", vocabulary=path).tokenizer.lacks == LACKS
    assert not mypt_spec.dialect("mypt").tokenizer.lacks


@pytest.mark.parametrize("text", ["Hi é €", "\U0001f41d", "a\tb\nc\x05"])
def test_other_texts_are_as_ever(path: Path, text: str) -> None:
    d = mypt_spec.dialect("qwen3", vocabulary=path)
    assert d.tokenizer.decode(d.tokenizer.encode(text)) == text
    episode, findings = d.check(record(text))
    assert episode is not None
    assert not findings


@pytest.mark.parametrize(("char", "code"), [("\x04", "U+0004"), ("\U00050001", "U+50001")])
def test_a_text_that_needs_one_is_a_finding(path: Path, char: str, code: str) -> None:
    d = mypt_spec.dialect("qwen3", vocabulary=path)
    _, (finding,) = d.check(record(f"Hi {char}{char}"))
    assert (finding.code, finding.pointer, finding.span) == (
        "MYP514",
        "/messages/0/content",
        (3, 4),
    )
    assert code in finding.message
    assert "(and 1 more)" in finding.message
    for encode in (d.tokenizer.encode, lambda text: d.tokenizer.encode_batch(["a", text])):
        with pytest.raises(ValueError, match=f"no token for {code.replace('+', '.')}"):
            encode(f"Hi {char}")


def test_the_linter_and_prepare_say_where(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("numpy")
    from mypt.lint.cli import main as lint
    from mypt.prepare.cli import main as prepare

    data = tmp_path / "data.jsonl"
    lines = ["Hi", "a\x04", "Ho"] * 20
    data.write_text("".join(json.dumps(record(text)) + "\n" for text in lines))
    options = ["--dialect", "qwen3", "--vocab", str(path)]
    assert lint([*options, "--no-config", "--format", "concise", str(data)]) == 1
    out = capsys.readouterr().out
    assert out.count("MYP514") == 20
    assert f"{data}:2:" in out
    made_at = tmp_path / "out"
    prepare([*options, "--on-error", "reject", "--out", str(made_at), str(data)])
    rejected = [path.read_text() for path in made_at.rglob("*reject*") if path.is_file()]
    assert "".join(rejected).count("MYP514") == 20


def test_other_lines_are_proved_clean(path: Path) -> None:
    """Whether the character is in a line itself, or as an escape, in JSON that is a string, too."""
    pytest.importorskip("numpy")
    from mypt_lint.fast.findings_cache import FindingsCache
    from mypt_train.data.encode_line import Encoder
    from mypt_train.data.formats.options import Options

    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "f", "arguments": r'{"a": "\u0004"}'},
    }
    spoken = [record("Hi")["messages"][0], {"role": "assistant", "content": "Yo"}]
    calling = {"messages": [spoken[0], {"role": "assistant", "tool_calls": [call]}, *spoken[::-1]]}
    bad = [json.dumps(record(f"a{char}")) for char in "\x04\x13\U00050001"] + [json.dumps(calling)]
    bad += [bad[2].replace("ud900", "uD900"), json.dumps(record("\U00050001"), ensure_ascii=False)]
    good = [json.dumps(record(f"{n} é €\x05\U0001f41d"), ensure_ascii=n % 2 > 0) for n in range(9)]
    encoder = Encoder(Options(dialect="qwen3", vocabulary=str(path)))
    lines = [line.encode() for line in (*good, *bad)]
    assert encoder.clean_filter.doubtful(lines) == [*range(len(good), len(lines))]
    of_others = FindingsCache(replace(encoder.checker, shape="openai"))
    assert of_others.judged(json.dumps(record("Größe 2 €")).encode())
    assert {*map(of_others.judged, lines[len(good) :])} == {None}
    found = [[f.code for f in outcome.findings] for outcome in encoder.lines(lines)]
    assert found[: len(good)] == [[]] * len(good)
    assert all("MYP514" in codes for i, codes in enumerate(found[len(good) :]) if i != 3)


def test_the_decoder_offers_only_what_has_tokens(path: Path) -> None:
    d = mypt_spec.dialect("qwen3", vocabulary=path)
    values = ["x\U00050001", "\U00050002y", "ok"]
    tool = function("t", {"a": {"enum": values}}, required=["a"])
    of = Decoder(d, [tool], forbidden_blocks=["think"])
    calls = 0
    for seed in range(12):
        ids = walk(of, of.start(prompt("qwen3"), max_new_tokens=60), random.Random(seed))
        text = d.tokenizer.decode(ids)
        assert "\ufffd" not in text
        assert "\U00050001" not in text
        if "<tool_call>" in text:
            assert '"ok"' in text
            calls += 1
    assert calls


def test_answers_of_llguidance_have_tokens(path: Path) -> None:
    pytest.importorskip("llguidance")
    from mypt_infer.decode import Response

    d = mypt_spec.dialect("qwen3", vocabulary=path)
    of = Decoder(d, response=Response(schema={"enum": ["x\U00050001", "\U00050002y", "okay"]}))
    for seed in range(8):
        ids = walk(of, of.start(prompt("qwen3"), max_new_tokens=60), random.Random(seed))
        assert d.tokenizer.decode(ids).endswith('"okay"<|im_end|>')
