"""Sizes of config.json that the weights contradict are refused before anything is built."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")

from mypt_infer.generate.llama import load
from mypt_model.folder import CONFIG, TRAINER
from mypt_model.shape import ModelError
from tests.support.tiny_models import checkpoint

HUGE = 1_000_000_000
LIES: list[tuple[dict[str, Any], str]] = [
    ({"num_hidden_layers": HUGE}, f"num_hidden_layers is {HUGE}, but the weights have 1 layers"),
    ({"num_hidden_layers": 2}, "num_hidden_layers is 2, but the weights have 1 layers"),
    ({"vocab_size": 9_000_000}, "model.embed_tokens.weight has shape .* config.json says .9000000"),
    ({"intermediate_size": 10**30}, "intermediate_size is 1.*0, expected at most"),
    ({"hidden_size": 2**62, "num_attention_heads": 2}, "hidden_size is 4.*, expected at most"),
    ({"model_type": "qwen3", "num_hidden_layers": HUGE}, "but the weights have 1 layers"),
]


@pytest.mark.parametrize(("lie", "why"), LIES)
def test_sizes_are_held_against_the_weights(tmp_path: Path, lie: dict[str, Any], why: str) -> None:
    folder = checkpoint(tmp_path / "run")
    path = folder / CONFIG
    path.write_text(json.dumps(json.loads(path.read_text()) | lie))
    with pytest.raises(ModelError, match=why):
        load(folder)


def test_a_config_that_was_altered_after_training_is_named_as_such(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "run")
    config = (folder / CONFIG).read_bytes()
    entry = {"sha256": hashlib.sha256(config).hexdigest()}
    (folder / TRAINER).write_text(json.dumps({"files": {CONFIG: entry}}))
    load(folder)
    for damaged in (config.replace(b'"vocab_size": ', b'"vocab_size": 9'), config[:-9]):
        (folder / CONFIG).write_bytes(damaged)
        with pytest.raises(ModelError, match=r"config\.json: was altered after trainer\.json"):
            load(folder)


@pytest.mark.parametrize("name", [CONFIG, TRAINER])
def test_a_config_that_nests_too_deep_is_named(tmp_path: Path, name: str) -> None:
    folder = checkpoint(tmp_path / "run")
    (folder / name).write_text("[" * 100_000)
    with pytest.raises(ModelError, match=f"{name} is not JSON"):
        load(folder)
