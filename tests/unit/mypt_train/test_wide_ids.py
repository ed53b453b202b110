"""Ids of 32 bits: prepared data, training, and export on a vocabulary of more than 65,536 ids."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import mypt_spec
from mypt.lint.cli import main as lint
from mypt.prepare.cli import main as prepare
from mypt.view import main as view
from mypt_spec.tokenizer.vocabulary import JSON_FILE
from mypt_train import ShardError, ShardReader
from mypt_train.data.formats.manifest import dtype_of
from tests.support.build import chat, read, user, write
from tests.support.foreign import large
from tests.support.shards import PHASES, manifest_of
from tests.support.training import TRAIN


def arguments(out: Path) -> list[str]:
    """Returns those of mypt-prepare for the examples."""
    context = ["--context-length", "1024", "--workers", "1", "-q"]
    return [*PHASES, "--out", str(out), "--vocab", str(large()), *context]


def prepared(out: Path, *more: str) -> Path:
    assert prepare([*arguments(out), *more]) == 0
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("wide") / "set")


def test_the_manifest_says_the_type(folder: Path) -> None:
    reader = ShardReader(folder, verify=True)
    facts = {key: reader.manifest[key] for key in ("dtype", "version", "vocab_size", "pad_id")}
    assert facts == {"dtype": "uint32", "version": 2, "vocab_size": 70_336, "pad_id": 5}
    assert list(reader.manifest["vocabulary_sha256"]) == [JSON_FILE]
    assert (folder / JSON_FILE).read_bytes() == large().read_bytes()
    assert reader.dialect is mypt_spec.dialect("mypt", vocabulary=large())


def test_tags_that_the_vocabulary_lacks_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their ids are beyond the model's, and a trainer of somebody else adds no rows by itself."""
    words = [word for word in arguments(tmp_path / "set") if word != "-q"]
    assert prepare(words) == 0
    (said,) = (line for line in capsys.readouterr().err.splitlines() if "the vocabulary" in line)
    assert "not in the vocabulary: </myPT_assistant>, </myPT_assistant_context>, " in said
    assert said.endswith("; mypt-train adds them, others need embeddings of 70336 rows")


def test_the_last_id_of_16_bits_needs_no_more() -> None:
    assert [dtype_of(size) for size in (50_304, 65_536, 65_537)] == ["uint16", "uint16", "uint32"]


@pytest.mark.parametrize(
    "form", ["bin", pytest.param("parquet", marks=pytest.mark.extra("pyarrow"))]
)
def test_the_ids_come_back(tmp_path: Path, folder: Path, form: str) -> None:
    if form == "parquet":
        folder = prepared(tmp_path / "set", "--format", form)
    reader = ShardReader(folder, verify=True)
    d = reader.dialect
    (shard,) = reader.shards()
    assert shard.ids.dtype == np.dtype("<u4")
    expected = []
    for record in (record for file in PHASES for record in read(file)):
        episode, _ = d.read(record)
        assert episode is not None
        expected.append(d.encode(episode).ids.tolist())
    assert sorted(ids.tolist() for ids, _ in shard.episodes()) == sorted(expected)
    assert int((shard.ids == 5).sum()) == len(shard.ids) - sum(map(len, expected)), "padding"
    if form == "bin":
        files = reader.manifest["splits"]["train"]["shards"][0]["files"]
        (size,) = (entry["bytes"] for name, entry in files.items() if name.endswith("0.bin"))
        assert size == 4 * len(shard.ids)


def test_the_linter_and_the_viewer_read_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lint([str(folder)]) == 0
    capsys.readouterr()
    assert view([f"{folder}:1", "--ids"]) == 0
    shown = capsys.readouterr().out
    assert "70256" in shown, "the first tag"
    assert str(70_000 + ord("Y")) in shown


def test_a_run_that_was_stopped_is_resumed(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    out, shard = tmp_path / "out", "train/shard_00000.bin"
    with monkeypatch.context() as patched:
        patched.setattr(sys.modules["mypt_train.scale.prepare"], "commit", stop)
        assert prepare(arguments(out)) == 130
    prepared(out, "--resume")
    assert (out / shard).read_bytes() == (folder / shard).read_bytes()


def test_a_manifest_of_another_type_is_refused(tmp_path: Path) -> None:
    out = prepared(tmp_path / "set")
    manifest = manifest_of(out) | {"dtype": "uint16", "version": 1}
    (out / "dataset_metadata.json").write_text(json.dumps(manifest))
    with pytest.raises(ShardError, match="dtype is uint16, mypt has uint32; prepare the data ag"):
        ShardReader(out)


@pytest.mark.numeric
def test_a_model_is_trained_and_exported(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    tokenizers = pytest.importorskip("tokenizers")
    from mypt.export import main as exports
    from mypt.generate import main as generate
    from mypt_train.training.trainer import train

    model = {
        "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "tie_word_embeddings": True,
    }  # fmt: skip
    run = tmp_path / "run"
    report = train(folder, {"model": model, "train": TRAIN | {"steps": 2, "warmup": 1}}, run)
    assert (report.folder / JSON_FILE).read_bytes() == large().read_bytes()
    prompt = write(tmp_path / "prompt.json", {"system": "S", **chat(user())})
    args = ["--model", str(run), "--prompt", prompt, "--max-new-tokens", "20", "--json"]
    assert generate([*args, "--seed", "1"]) == 0
    answer = json.loads(capsys.readouterr().out)
    d = mypt_spec.dialect("mypt", vocabulary=large())
    assert d.tokenizer.decode(answer["ids"]) == answer["text"]
    out = tmp_path / "exported"
    assert exports([str(run), str(out)]) == 0
    assert (out / JSON_FILE).read_bytes() == large().read_bytes()
    theirs = tokenizers.Tokenizer.from_file(str(out / "tokenizer.json"))
    text = "Say 'Hi' to  12345!\n\n"
    assert theirs.encode(text).ids == d.tokenizer.encode(text)
    assert theirs.token_to_id("<pad>") == 5
    assert theirs.token_to_id("<myPT_eot>") == d.tokenizer.special["<myPT_eot>"]
    # The exported tokenizer is a vocabulary itself: the tags are its special tokens.
    (out / JSON_FILE).unlink()
    again = mypt_spec.dialect("mypt", vocabulary=out)
    assert again.tokenizer.special == d.tokenizer.special
    assert again.tokenizer.encode(text) == d.tokenizer.encode(text)
