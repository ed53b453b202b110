"""Folders that hold a model:

`config.json` and `*.safetensors`, as Hugging Face has them. No pickle, ever.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mypt_model.shape import LlamaConfig, ModelError

if TYPE_CHECKING:
    from torch import Tensor

CONFIG, WEIGHTS, OPTIMIZER = "config.json", "model.safetensors", "optimizer.safetensors"
TRAINER = "trainer.json"  # of a checkpoint: what it was trained with


def newest(folder: str | Path) -> Path:
    """The folder itself if it holds a model, else the latest checkpoint in it, if it is the output
    of a training run.
    """
    folder = Path(folder)
    found = [] if (folder / CONFIG).exists() else checkpoints(folder)
    return found[-1] if found else folder


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints `step_<number>` of a training run, the oldest first.

    A checkpoint gets this name when it is whole.
    """
    found = [
        (int(p.name[5:]), p)
        for p in folder.glob("step_*")
        if p.name[5:].isdecimal() and (p / CONFIG).exists()
    ]
    return [path for _, path in sorted(found)]


def beside(folder: str | Path, name: str) -> Path | None:
    """A file of that name in the folder of a model, its vocabulary for instance;

    None where there is none.
    """
    path = newest(folder) / name
    return path if path.is_file() else None


def dialect_of(folder: str | Path, *, wanted: str | None, default: str) -> str:
    """Returns the name of the dialect that a model speaks: the one that it was trained on, as its
    checkpoint says.

    Where the checkpoint does not say, it is `wanted`, or else `default`; "auto" wants none. Raises
    ModelError where it says another than `wanted`.
    """
    wanted = None if wanted == "auto" else wanted
    path = newest(folder) / TRAINER
    try:
        facts = json.loads(path.read_bytes()) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read {path}: {error}") from None
    data = facts.get("data") if isinstance(facts, dict) else None
    said = data.get("dialect") if isinstance(data, dict) else None
    if not isinstance(said, str):
        return wanted or default
    if wanted not in (None, said):
        raise ModelError(
            f"{folder}: the model was trained on {said}, not on {wanted}; leave --dialect out"
        )
    return said


def read_config(folder: Path) -> LlamaConfig:
    """The shape of the model in a folder. Raises ModelError naming the file and what is wrong."""
    path = folder / CONFIG
    if folder.is_file():
        raise ModelError(f"{folder} is a file; expected a folder with {CONFIG} and *.safetensors")
    try:
        raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise ModelError(f"{path} is not JSON: {error}") from None
    if (
        raw.get("model_type", "llama") != "llama"
        or raw.get("attention_bias")
        or raw.get("mlp_bias")
        or raw.get("rope_scaling")
    ):
        raise ModelError(
            f"{path}: only plain Llama models are read (no biases, no scaled positions)"
        )
    raw.setdefault("num_key_value_heads", raw.get("num_attention_heads"))
    for nested in (raw.get("rope_parameters"), raw.get("rope_theta")):
        if isinstance(nested, dict):
            raw["rope_theta"] = nested.get("rope_theta", 10000.0)
    known = {f.name for f in fields(LlamaConfig)}
    try:
        return LlamaConfig(**{k: v for k, v in raw.items() if k in known})
    except TypeError as error:
        raise ModelError(f"{path}: {str(error).partition(') ')[2] or error}") from None
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The weights of the model in a folder, by name. Raises ModelError naming the file."""
    files = sorted(path for path in folder.glob("*.safetensors") if path.name != OPTIMIZER)
    if not files:
        raise ModelError(f"{folder} holds no *.safetensors file")
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError:
        raise ModelError(
            "reading weights needs safetensors: pip install 'mypt-tags[infer]'"
        ) from None
    weights: dict[str, Tensor] = {}
    for path in files:
        try:
            weights |= load_file(path)
        except (SafetensorError, OSError) as error:
            raise ModelError(f"cannot read {path}: {error}") from None
    return weights
