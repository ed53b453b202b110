"""Writes and reads checkpoints: a model folder, and what is needed to continue training.

`step_<number>/` holds config.json and model.safetensors, as Hugging Face has them, and
optimizer.safetensors and trainer.json, which says what the model was trained with. The folder is
written under another name and renamed when all of it is on the disk, so a checkpoint is whole or
not there. Nothing is pickled. Of several processes, the first gathers and writes it.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from mypt_cli import atomic
from mypt_model.folder import (
    CONFIG,
    GENERATION,
    OPTIMIZER,
    TRAINER,
    WEIGHTS,
    checkpoints,
    read_object,
)
from mypt_model.pretrained import Net, PretrainedConfig, open_model
from mypt_model.shape import LlamaConfig, ModelError
from mypt_train.training.parts import lora
from mypt_train.training.parts.distributed import ALONE, World, full_tensor, piece

SCHEMA, VERSION = "mypt_checkpoint", 1
# Keys of config.json that two models of one shape need not share.
_FREE = (
    "max_position_embeddings", "dtype", "torch_dtype", "_name_or_path", "architectures",
    "bos_token_id", "eos_token_id", "pad_token_id",
)  # fmt: skip


class CheckpointError(Exception):
    """A checkpoint cannot be written, or trained from; the message says why and what to do."""


def save(
    out: Path,
    step: int,
    model: Net,
    optimizer: torch.optim.Optimizer,
    facts: dict[str, Any],
    world: World,
    *,
    keep: int,
    beside: Mapping[str, bytes] | None = None,
) -> Path:
    """Writes the checkpoint after `step` steps, deletes all but the last `keep`; returns its path.

    All processes call it, and the first one writes. `beside` are further files, by name. Raises
    CheckpointError if the disk is full or refuses, or if weights are not finite; earlier
    checkpoints are then still there.
    """
    path = out / f"step_{step:06}"
    weights = {name: _on_first(weight, world) for name, weight in lora.merged(model).items()}
    state = {name: _on_first(value, world) for name, value in state_of(model, optimizer).items()}
    beside = dict(beside or {}) | lora.files(model, facts)
    if world.first:
        if spoilt := [name for name, w in weights.items() if not torch.isfinite(w).all()]:
            raise CheckpointError(
                f"after step {step} {len(spoilt)} weights are not finite, such as {spoilt[0]}; "
                f"{_last_of(out)}. Lower train.lr"
            )
        try:
            with atomic.folder(path) as part:
                save_file(weights, part / WEIGHTS, metadata={"format": "pt"})
                save_file(state, part / OPTIMIZER)
                dtype = next(iter(weights.values())).dtype
                _complete(part, model, dtype, facts | {"step": step}, beside)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(
                f"{path}: cannot be written: {error}; {_last_of(out)}. Free some space and go on "
                "with --resume"
            ) from None
        for old in checkpoints(out)[:-keep]:
            shutil.rmtree(old)
    world.wait()
    return path


def state_of(model: Net, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{key}:{name}": value
        for name, weight in model.named_parameters()
        for key, value in optimizer.state.get(weight, {}).items()
    }


def _last_of(out: Path) -> str:
    paths = checkpoints(out)
    return f"the last checkpoint is {paths[-1]}" if paths else "there is no checkpoint yet"


def _on_first(tensor: Tensor, world: World) -> Tensor:
    full = full_tensor(tensor)
    return full.cpu().contiguous() if world.first else torch.empty(0)


def _complete(
    part: Path, model: Net, dtype: torch.dtype, facts: dict[str, Any], beside: Mapping[str, bytes]
) -> None:
    """Writes what a checkpoint has besides tensors; trainer.json, which lists all, is the last."""
    for name, content in beside.items():
        (part / name).parent.mkdir(exist_ok=True)
        (part / name).write_bytes(content)
    files = {
        name: {"bytes": (part / name).stat().st_size, "sha256": atomic.sha256(part / name)}
        for name in (WEIGHTS, OPTIMIZER, *beside)
    }
    shape = model.config.as_json()
    key = "dtype" if "dtype" in shape else "torch_dtype"
    for name, value in (
        (CONFIG, shape | {key: str(dtype).removeprefix("torch.")}),
        (TRAINER, facts | {"schema": SCHEMA, "version": VERSION, "files": files}),
    ):
        (part / name).write_text(
            json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8"
        )


def generation_of(folder: Path | None) -> dict[str, bytes]:
    """Returns the settings of generation in the folder of a model, as a file by its name."""
    path = None if folder is None else folder / GENERATION
    return {} if path is None or not path.is_file() else {GENERATION: path.read_bytes()}


def facts_of(folder: Path, world: World = ALONE) -> dict[str, Any]:
    """Returns the content of trainer.json; {} for a model that another program has made.

    The processes share the work of comparing digests, so all of them call it. Raises
    CheckpointError, in all of them, for a file that cannot be read, has another version, or lists a
    file that is missing or was altered.
    """
    path = folder / TRAINER
    if not path.exists():
        return {}
    try:
        facts = read_object(path)
    except ModelError as error:
        raise CheckpointError(str(error)) from None
    if (facts.get("schema"), facts.get("version")) != (SCHEMA, VERSION):
        raise CheckpointError(f"{path}: is not a {SCHEMA} of version {VERSION}")
    files = facts["files"]
    altered = torch.zeros(len(files), device=world.device)
    for i, (name, entry) in enumerate(files.items()):
        path = folder / name
        if i % world.size == world.rank:
            altered[i] = not path.exists() or atomic.sha256(path) != entry["sha256"]
    for name, wrong in zip(files, world.sum(altered).tolist(), strict=True):
        if wrong:
            raise CheckpointError(
                f"{folder / name}: is missing or was altered; delete {folder} to go on from the "
                "checkpoint before it"
            )
    return facts


def digest(folder: Path) -> str:
    """Returns the SHA-256 of a model's weights, over all their files, in hexadecimal."""
    files = sorted(path for path in folder.glob("*.safetensors") if path.name != OPTIMIZER)
    return hashlib.sha256("".join(atomic.sha256(path) for path in files).encode()).hexdigest()


def load_weights(folder: Path, model: Net) -> int:
    """Copies the weights of a folder into a model; returns the number of ids without embedding.

    The model's embeddings of these ids, which the folder lacks, stay as they are. Raises
    CheckpointError for a folder without a model, or with a model of another shape.
    """
    try:
        source = open_model(folder)
    except ModelError as error:
        raise CheckpointError(str(error)) from None
    weights = dict(source.named_parameters())
    fresh = lacking(folder, source.config, model)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight[: len(weights[name])] = weights[name]
    return fresh


def lacking(folder: Path, shape: LlamaConfig | PretrainedConfig, model: Net) -> int:
    """Returns how many ids of a model the one in a folder lacks, whose shape is `shape`.

    Raises CheckpointError if their shapes differ otherwise.
    """
    fresh = model.config.vocab_size - shape.vocab_size
    expected = model.config.as_json() | {"vocab_size": shape.vocab_size}
    for key, value in shape.as_json().items():
        if expected.get(key, value) != value and key not in _FREE:
            raise CheckpointError(
                f"{folder}: {key} is {value}, the config has {expected[key]}; use the shape of the "
                "model that training begins with"
            )
    if fresh < 0:
        raise CheckpointError(
            f"{folder}: has {shape.vocab_size} ids, the data {model.config.vocab_size}: these are "
            "different vocabularies"
        )
    return fresh


def load_state(folder: Path, model: Net, optimizer: torch.optim.Optimizer) -> None:
    """Gives an optimizer the state of a checkpoint: of each tensor, what this process holds.

    No more than one whole tensor is in memory. Raises CheckpointError if it cannot be read.
    """
    weights = dict(model.named_parameters())
    try:
        with safe_open(folder / OPTIMIZER, "pt") as stored:
            for full in stored.keys():  # noqa: SIM118
                key, _, name = full.partition(":")
                value = stored.get_tensor(full)
                optimizer.state[weights[name]][key] = (
                    value.clone() if value.dim() == 0 else piece(value, weights[name])
                )
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{folder / OPTIMIZER}: cannot be read: {error}") from None


def size_of(model: Net) -> int:
    """Returns about how many bytes a checkpoint has: weights, and two moments of trained ones."""
    return sum(w.numel() * (12 if w.requires_grad else 4) for w in model.parameters()) + (1 << 16)


def check_space(out: Path, model: Net, keep: int) -> None:
    """Raises CheckpointError if the disk has no room for the checkpoints to keep and one more."""
    free = shutil.disk_usage(out).free
    there = sum(file.stat().st_size for folder in checkpoints(out) for file in folder.rglob("*"))
    needed = size_of(model) * (keep + 1) - there
    if needed > free:
        raise CheckpointError(
            f"{out}: {keep + 1} checkpoints take {needed / 1e6:,.0f} MB, {free / 1e6:,.0f} MB are "
            "free; free some space or set train.keep"
        )
