"""Make models with random weights, so small that a step takes no time, and folders that hold them."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from mypt_infer.generate.llama import Llama, LlamaConfig, shapes
from mypt_model.folder import CONFIG, TRAINER, WEIGHTS
from mypt_model.llama import of_weights
from mypt_spec.tokenizer.vocabulary import FILE
from tests.support import vocabulary

POSITIONS = 2048


def shape(ids: int, **more: Any) -> LlamaConfig:
    """Returns the shape of a model of one layer, for so many ids."""
    return LlamaConfig(ids, 8, 16, 1, 2, 1, tie_word_embeddings=True, **more)


def random_model(config: LlamaConfig, seed: int = 0, *, scale: float = 0.05) -> Llama:
    """Returns a model with random weights, for tests and measurements."""
    generator = torch.Generator().manual_seed(seed)
    weights = {
        n: torch.ones(s)
        if n.endswith("norm.weight")
        else torch.randn(s, generator=generator) * scale
        for n, s in shapes(config).items()
    }
    return Llama(of_weights(config, weights))


def tiny(ids: int, seed: int = 0, **more: Any) -> Llama:
    return random_model(shape(ids, **more), seed)


def checkpoint(folder: Path, dialect: str = "mypt", *, named: bool = True) -> Path:
    """Writes a checkpoint with random weights on the small vocabulary; returns its folder.

    Only if it is `named` does it say its dialect, as training writes it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = shape(
        vocabulary.small(dialect).tokenizer.vocab_size, max_position_embeddings=POSITIONS
    )
    (folder / CONFIG).write_text(json.dumps(asdict(config) | {"model_type": "llama"}))
    save_file(random_model(config).weights, folder / WEIGHTS)
    shutil.copy(vocabulary.path(), folder / FILE)
    if named:
        name_dialect(folder, dialect)
    return folder


def name_dialect(folder: Path, dialect: str) -> None:
    """Lets a checkpoint say that it was trained on a dialect."""
    facts = {"schema": "mypt_checkpoint", "version": 1, "data": {"dialect": dialect}}
    (folder / TRAINER).write_text(json.dumps(facts))
