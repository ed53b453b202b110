"""Writes the gradients of one step, in the first of all processes:

`python -m tests.support.gradients DATA OUT ROWS MICRO`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from mypt_model.llama import random_transformer
from mypt_model.shape import LlamaConfig
from mypt_train.training.batches import batch, share, stages
from mypt_train.training.corpus import corpus, open_data
from mypt_train.training.objective import Objective
from mypt_train.training.parts.config import Config
from mypt_train.training.parts.distributed import full_tensor, joined, spread_out
from tests.support.training import SHAPE, THREADS

TIED = SHAPE | {"tie_word_embeddings": True}


def gradients(data: Path, out: Path, rows: int, micro: int) -> None:
    """Writes those of a step of `rows` rows, in micro-batches of `micro`, and the loss.

    In files ddp.safetensors and fsdp.safetensors.
    """
    torch.set_num_threads(THREADS)
    config = Config.load({"model": TIED}).train
    train = corpus(open_data([data]), "train")
    (stage,) = stages([(None, train.rows())], steps=1, size=rows, replay=0, seed=0)
    with joined("cpu") as world:
        parts = share(stage.rows(0, rows), world.rank, world.size, micro)
        for strategy in ("ddp", "fsdp"):
            shape = LlamaConfig(vocab_size=train.dialect.tokenizer.vocab_size, **TIED)
            model = random_transformer(shape, 1)
            objective = Objective(config, train, world, None)
            shared = spread_out(model, world, strategy, torch.float32)
            batches = [batch(train, part) for part in parts]
            loss = objective.step(shared, batches, objective.count(batches))
            weights = [(n, w.grad) for n, w in model.named_parameters() if w.grad is not None]
            tensors = {name: full_tensor(gradient).contiguous() for name, gradient in weights}
            if world.first:
                out.mkdir(exist_ok=True)
                save_file(tensors | {"loss": loss}, out / f"{strategy}.safetensors")


if __name__ == "__main__":
    gradients(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
