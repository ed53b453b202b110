"""A model folder that lacks a file, or has another model's, is refused with what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")

import mypt_spec
from mypt_infer.generate.llama import load
from mypt_infer.generate.loop import vocabulary_mismatch
from mypt_model.folder import CONFIG, WEIGHTS
from mypt_model.shape import ModelError
from mypt_spec import VocabularyError
from mypt_spec.tokenizer.sources import read_vocabulary
from tests.support.tiny_models import checkpoint
from tests.support.vocabulary import path as small_vocabulary

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 269060552\n"
INDEX = json.dumps({"weight_map": {"a": WEIGHTS, "b": "model-00002-of-00002.safetensors"}}).encode()


def without(key: str) -> Callable[[bytes], bytes]:
    return lambda data: json.dumps({k: v for k, v in json.loads(data).items() if k != key}).encode()


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        (CONFIG, lambda _: b"", "config.json: .*; a model folder has config.json, .* tokenizer.json"),
        (CONFIG, without("vocab_size"), "config.json: 'vocab_size' is missing; copy the config"),
        (WEIGHTS, lambda _: b"", "holds no .*safetensors file; copy the weights there"),
        (WEIGHTS, lambda data: data[:-9], "model.safetensors: .*; download the file again"),
        (WEIGHTS, lambda _: POINTER, "model.safetensors is a pointer of Git LFS, .*: git lfs pull"),
        (f"{WEIGHTS}.index.json", lambda _: INDEX, "00002.safetensors is missing; model.safetens"),
        (f"{WEIGHTS}.index.json", lambda _: b"[]", "index.json: expected an object"),
    ],
)  # fmt: skip
def test_what_to_do(tmp_path: Path, name: str, change: Callable[[bytes], bytes], says: str) -> None:
    folder = checkpoint(tmp_path / "run")
    path = folder / name
    data = change(path.read_bytes() if path.exists() else b"")
    path.write_bytes(data) if data else path.unlink()
    with pytest.raises(ModelError, match=says):
        load(folder)


def test_weights_without_an_index_are_read(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "run")
    (folder / WEIGHTS).rename(folder / "model-00001-of-00001.safetensors")
    assert load(folder)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (POINTER, "is a pointer of Git LFS, not the file: git lfs pull"),
        (None, "holds none of .*; copy tokenizer.json or tekken.json from the model there"),
    ],
)
def test_vocabularies(tmp_path: Path, data: bytes | None, says: str) -> None:
    if data:
        (tmp_path / "tokenizer.json").write_bytes(data)
    with pytest.raises(VocabularyError, match=says):
        read_vocabulary(tmp_path)


def test_weights_of_another_vocabulary() -> None:
    """GPT-2's instead of the model's; a format's tags without rows; another model's file."""
    usual = mypt_spec.dialect("mypt")
    says = vocabulary_mismatch(49152, usual, 50304)
    assert says.startswith("the model has 49152 logits, mypt has 50304 ids: ")
    assert says.endswith("has no vocabulary beside it: put its tokenizer.json there, or name one (--vocab)")  # fmt: skip
    small = mypt_spec.dialect("mypt", vocabulary=small_vocabulary())
    size = len(read_vocabulary(small_vocabulary()).ranks)
    assert "lacks rows for tags of the format: train it on them" in vocabulary_mismatch(size, small, size + 64)  # fmt: skip
    for logits in (size - 1, size + 9999):
        says = vocabulary_mismatch(logits, replace(small), size + 64)
        assert "use the vocabulary and the weights of one model" in says
