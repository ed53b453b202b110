"""Another vocabulary: its file, its ids, and how it goes with prepared data and a model."""

from __future__ import annotations

import io
import json
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import mypt_spec
from mypt.generate import main as generate
from mypt.lint.cli import main as lint
from mypt.prepare.cli import main as prepare
from mypt.view import main as view
from mypt.vocab import main as learns
from mypt_infer.controller.history import History
from mypt_spec.tokenizer.sources import read_vocabulary
from mypt_spec.tokenizer.vocabulary import FILE, VocabularyError, write_ranks
from mypt_train import ShardError, ShardReader
from mypt_train.curriculum.bpe import BpeError, learn
from tests.support.build import chat, read, user, write
from tests.support.shards import PHASES, ROOT, prepare_files
from tests.support.vocabulary import SIZE, path, small, texts

BYTES = write_ranks({bytes([b]): b for b in range(256)})
GENERATE = ["--max-new-tokens", "20", "--seed", "1", "--json"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The examples, prepared on the small vocabulary."""
    prepare_files(PHASES, tmp_path / "set", vocabulary=str(path()), context_length=2048)
    return tmp_path / "set"


@pytest.fixture
def prompt(tmp_path: Path) -> str:
    return write(tmp_path / "prompt.json", {"system": "S", **chat(user())})


def test_ids_follow_behind_those_of_text() -> None:
    d, usual = small("mypt"), mypt_spec.dialect("mypt")
    assert list(d.tokenizer.special.items()) == [
        (tag, SIZE + 1 + i) for i, tag in enumerate(usual.tokenizer.special)
    ]
    assert list(d.tokenizer.ordinary) == list(range(SIZE))
    assert (d.tokenizer.pad, d.tokenizer.vocab_size) == (SIZE, 448)
    assert d.automaton is usual.automaton
    assert d.fingerprint != usual.fingerprint
    assert d is small("mypt")
    with pytest.raises(ValueError, match="means nothing"):
        d.tokenizer.decode([d.tokenizer.pad])


def test_the_usual_one_is_as_it_was() -> None:
    tokenizer = mypt_spec.dialect("mypt").tokenizer
    assert list(tokenizer.ordinary) == list(range(50256))
    assert (tokenizer.pad, tokenizer.vocab_size) == (50256, 50304)


def test_learning_is_deterministic_and_begins_alike() -> None:
    ranks = learn(texts(), SIZE)
    assert ranks == learn(texts(), SIZE)
    assert learn(texts(), 300).items() <= ranks.items()
    ids = sum(len(small("mypt").tokenizer.encode(text)) for text in texts())
    assert ids < 0.7 * sum(len(text.encode()) for text in texts())


@pytest.mark.parametrize(
    ("size", "says"), [(255, "expected 256 or more"), (100_000, "the texts hold")]
)
def test_sizes_that_cannot_be_learnt(size: int, says: str) -> None:
    with pytest.raises(BpeError, match=says):
        learn(["aaaa abab"], size)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "has no token for the byte 0x00"),
        (BYTES.replace(b"AA== 0\n", b""), "rank 1 stands where 0 is expected"),
        (BYTES + b"YWI= 257\n", ":257: rank 257 stands where 256"),
        (BYTES + b"YQ== 256\n", ":257: the token is empty, or occurs twice"),
        (BYTES + b"YWI=\n", ":257: expected lines"),
        (BYTES + b"Y?I= 256\n", ":257: expected lines"),
        (BYTES + b"YWI= x\n", ":257: expected lines"),
        (b"\xff\xfe" + BYTES, ":1: expected lines"),
        (b"".join(BYTES.splitlines(keepends=True)[:255]), "byte 0xff"),
    ],
)
def test_files_that_are_no_vocabulary(tmp_path: Path, data: bytes, says: str) -> None:
    file = tmp_path / "bad.tiktoken"
    file.write_bytes(data)
    with pytest.raises(VocabularyError, match=says):
        mypt_spec.dialect("mypt", vocabulary=file)


def test_a_file_that_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(VocabularyError, match=r"none\.tiktoken: cannot be read"):
        read_vocabulary(tmp_path / "none.tiktoken")
    out, file = str(tmp_path / "out"), str(tmp_path / "none.tiktoken")
    assert prepare([*PHASES, "--out", out, "--vocab", file, "-q"]) == 2
    assert "none.tiktoken: cannot be read" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_shards_bring_their_vocabulary_along(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = ShardReader(folder, verify=True)
    assert reader.dialect is small("mypt")
    assert reader.manifest["vocabulary_sha256"] == {FILE: read_vocabulary(path()).sha256}
    assert (reader.manifest["vocab_size"], reader.manifest["pad_id"]) == (448, SIZE)
    assert (folder / FILE).read_bytes() == path().read_bytes()
    (shard,) = reader.shards()
    covered = np.zeros(len(shard.ids), bool)
    for entry in shard.index:
        covered[int(entry["start"]) : int(entry["start"]) + int(entry["length"])] = True
    assert (shard.ids[~covered] == SIZE).all()
    assert (shard.ids[covered] != SIZE).all()
    d, records = small("mypt"), [record for file in PHASES for record in read(file)]
    expected = sorted(d.encode(d.read(record)[0]).ids.tolist() for record in records)  # type: ignore[arg-type]
    assert sorted(ids.tolist() for ids, _ in shard.episodes()) == expected
    assert lint([str(folder)]) == 0
    capsys.readouterr()
    assert view([f"{folder}:1", "--ids"]) == 0
    assert str(SIZE + 1) in capsys.readouterr().out


def test_shards_on_an_altered_vocabulary_are_refused(folder: Path) -> None:
    rows = (folder / FILE).read_bytes().splitlines(keepends=True)
    (folder / FILE).write_bytes(b"".join(rows[:-1]))
    with pytest.raises(ShardError, match="was prepared with another vocabulary"):
        ShardReader(folder)
    (folder / FILE).unlink()
    with pytest.raises(ShardError, match="cannot be read"):
        ShardReader(folder)


def test_another_vocabulary_does_not_go_on_with_what_was_begun(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    out, own = tmp_path / "out", tmp_path / "own.tiktoken"
    own.write_bytes(path().read_bytes())
    args = [PHASES[0], "--out", str(out), "--vocab", str(own), "--workers", "1", "-q"]
    with monkeypatch.context() as patched:
        patched.setattr(import_module("mypt_train.scale.prepare"), "commit", stop)
        assert prepare(args) == 130
    own.write_bytes(BYTES)
    assert prepare([*args, "--resume"]) == 2
    assert "another grammar, vocabulary, unit size or version" in capsys.readouterr().err


def test_the_log_of_a_conversation_takes_a_dialect() -> None:
    assert History(small("mypt")).dialect is small("mypt")


def test_generating_finds_the_vocabulary_beside_the_model(
    prompt: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    from tests.support.tiny_models import checkpoint

    model = checkpoint(tmp_path / "model", named=False)
    (model / FILE).unlink()
    words = ["--model", str(model), "--prompt", prompt, *GENERATE]
    assert generate(words) == 2
    assert "50304" in capsys.readouterr().err
    assert generate([*words, "--vocab", str(path())]) == 0
    first = json.loads(capsys.readouterr().out)
    (model / FILE).write_bytes(path().read_bytes())
    assert generate(words) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert small("mypt").tokenizer.decode(first["ids"]) == first["text"]
    assert generate([*words, "--vocab", prompt]) == 2
    assert "expected a file of ranks" in capsys.readouterr().err


def test_the_command_learns_from_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "own.tiktoken"
    assert learns([*PHASES, "-o", str(out), "--size", str(SIZE)]) == 0
    assert out.read_bytes() == path().read_bytes()
    assert f"{SIZE} ids of text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([*PHASES, "--size", "99"], "expected 256 or more"),
        ([*PHASES, "--size", "99999"], "the texts hold"),
        (["none.jsonl"], "no such file"),
        ([str(ROOT / "examples" / "broken.jsonl")], r"broken.jsonl:\d+: MYP\d+ "),
        ([*PHASES, "--dialect", "mypd"], "no dialect 'mypd'"),
        ([*PHASES, "--size", "300", "-o", "/none/x"], "/none/x: cannot be written"),
    ],
)
def test_what_the_command_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: list[str], says: str
) -> None:
    assert learns(["-o", str(tmp_path / "x"), *args]) == 2
    assert re.search(says, capsys.readouterr().err)
    assert not list(tmp_path.iterdir())


def test_a_run_brings_its_vocabulary_along(
    folder: Path,
    prompt: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From shards on a small vocabulary to a checkpoint, to what it generates, chats, and is
    exported as.
    """
    pytest.importorskip("torch")
    from mypt.chat import main as talk
    from mypt.export import main as exports
    from mypt_train.training.trainer import train
    from tests.support.training import config

    run = tmp_path / "run"
    report = train(folder, config(steps=2, warmup=1), run)
    assert (report.folder / FILE).read_bytes() == path().read_bytes()
    assert generate(["--model", str(run), "--prompt", prompt, *GENERATE]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert small("mypt").tokenizer.decode(answer["ids"]) == answer["text"]
    monkeypatch.setattr("sys.stdin", io.StringIO("Hi\n"))
    chats = str(tmp_path / "chats.jsonl")
    words = ["--model", str(run), "--max-tokens", "12", "--seed", "1", "--transcript", chats]
    assert talk(words) == 0
    (transcript,) = read(chats)
    assert transcript["_transcript"]["grammar"] == small("mypt").fingerprint
    assert max(transcript["_transcript"]["ids"]) < 448
    assert exports([str(run), str(tmp_path / "exported")]) == 0
    assert (tmp_path / "exported" / FILE).read_bytes() == path().read_bytes()
    (report.folder / FILE).write_bytes(BYTES)
    assert generate(["--model", str(run), "--prompt", prompt]) == 2
    assert "448 logits" in capsys.readouterr().err
