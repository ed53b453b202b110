"""Gives a run the state of a checkpoint, whole or in pieces, whatever the number of processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load

from mypt_model.pieces import SHARDS, is_sharded
from mypt_model.pretrained import Net
from mypt_train.training.parts import lora
from mypt_train.training.parts.checkpoint import CheckpointError, load_state
from mypt_train.training.parts.distributed import World
from mypt_train.training.sharded.write import storage


@torch.no_grad()
def restore(folder: Path, model: Net, optimizer: torch.optim.Optimizer, world: World) -> None:
    """Gives an optimizer the state of a checkpoint; of one in pieces, also the weights to a model.

    Each process reads what it will hold, and no more. Raises CheckpointError if that cannot be
    read.
    """
    if not is_sharded(folder):
        load_state(folder, model, optimizer)
        return
    weights = dict(model.named_parameters())
    # Adapters have their own file, and what they adapt is in the folder of the base model.
    loadable = {} if lora.trained(model) else weights
    tensors: dict[str, Tensor] = {name: weight.detach() for name, weight in loadable.items()}
    try:
        reader: Any = storage("HuggingFaceStorageReader")(str(folder / SHARDS))
        for full, entry in reader.read_metadata().state_dict_metadata.items():
            key, colon, name = full.partition(":")
            if colon:
                tensors[full] = (
                    torch.zeros_like(weights[name]) if len(entry.size) else torch.zeros(())
                )
                optimizer.state[weights[name]][key] = tensors[full]
        load(tensors, storage_reader=reader, no_dist=world.size == 1)
    except (Exception, CheckpointException) as error:
        raise CheckpointError(f"{folder / SHARDS}: cannot be read: {error}") from None
