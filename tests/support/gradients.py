"""The gradients of one step, written by the first of all processes:

`python -m tests.support.gradients DATA OUT ROWS MICRO OBJECTIVE`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from mypt_model.llama import random_transformer
from mypt_model.shape import LlamaConfig
from mypt_train.training.batches import batch, share, stages
from mypt_train.training.config import Config
from mypt_train.training.corpus import corpus, open_data
from mypt_train.training.distributed import joined, spread_out, whole
from mypt_train.training.objective import Objective
from mypt_train.training.trainer import _rows
from tests.support.training import SHAPE, THREADS

TIED = SHAPE | {"tie_word_embeddings": True}


def gradients(data: Path, out: Path, rows: int, micro: int, objective: str) -> None:
    """Of a step of `rows` rows, in micro-batches of `micro`.

    In files ddp.safetensors and fsdp.safetensors, with the loss.
    """
    torch.set_num_threads(THREADS)
    config = Config.of({"model": TIED, "train": {"objective": objective}}).train
    train = corpus(open_data([data]), "train")
    with joined("cpu") as world:
        for strategy in ("ddp", "fsdp"):
            model = random_transformer(LlamaConfig(vocab_size=50304, **TIED), 1)
            frozen = random_transformer(model.config, 2).requires_grad_(False)
            made = Objective(config, train, world, frozen)
            called = spread_out(model, world, strategy, torch.float32)
            (stage,) = stages([(None, _rows(train, config))], steps=1, size=rows, replay=0, seed=0)
            batches = [
                batch(train, part)
                for part in share(stage.rows(0, rows), world.rank, world.size, micro)
            ]
            loss = made.step(called, batches, made.count(batches))
            found = {
                name: whole(weight.grad).contiguous()
                for name, weight in model.named_parameters()
                if weight.grad is not None
            }
            if world.first:
                out.mkdir(exist_ok=True)
                save_file(found | {"loss": loss}, out / f"{strategy}.safetensors")


if __name__ == "__main__":
    gradients(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
