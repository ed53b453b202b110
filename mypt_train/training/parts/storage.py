"""Writes the checkpoints of a run, whole or in pieces, and reads one back.

Input: a model and an optimizer over all processes. Output: `step_<number>/`, which any number of
processes can read.

Theory of operation. In pieces, no process ever holds the whole model. Each one copies its piece of
weights and moments to memory and goes on with the next step, while a thread writes the copy into
`step_<number>.part/shards/` through torch.distributed.checkpoint, in the format of safetensors.
Weights that all processes have are written by one of them. Then each thread computes the digests
of its files, the first process collects them, and only it writes config.json and, as the last
file, trainer.json, which lists all others. The folder then gets its name. So a run that is killed
at any point leaves a whole checkpoint or one that nothing reads. Before the next checkpoint begins,
and at the end, all processes wait for the one that is being written.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from safetensors import SafetensorError
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save

from mypt_cli import atomic
from mypt_model.pieces import OF_OPTIMIZER, OF_WEIGHTS, SHARDS, is_sharded
from mypt_model.pretrained import Net
from mypt_train.training.parts import checkpoint, lora
from mypt_train.training.parts.config import ConfigError, TrainConfig
from mypt_train.training.parts.distributed import World, local_tensor

# Of processes that share their weights, a checkpoint of more bytes than this is written in pieces.
MAX_UNSHARDED = 4 << 30

# torch says so of a single process, which is no news.
warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)


class Saver:
    """Writes the checkpoints of a run into the folder `out`; all processes have one, used alike.

    It is a context: its end waits for what is being written. `beside` are further files, by name.
    """

    def __init__(
        self, out: Path, model: Net, optimizer: torch.optim.Optimizer, config: TrainConfig,
        world: World, beside: Mapping[str, bytes],
    ) -> None:  # fmt: skip
        self.out, self.model, self.optimizer, self.world = out, model, optimizer, world
        self.keep, self.beside = config.keep, beside
        self.sharded = config.checkpoint == "sharded"
        if config.checkpoint == "auto" and world.shares(config.parallel):
            self.sharded = checkpoint.size_of(model) > MAX_UNSHARDED
        self.pending: tuple[int, Future[Path]] | None = None
        self.saved: list[tuple[int, Path]] = []
        if self.sharded:
            # Of the threads alone: what training sums meanwhile must not meet what they exchange.
            self.group = dist.new_group(backend="gloo") if world.size > 1 else None
        self.thread = ThreadPoolExecutor(1, "checkpoint")

    def __enter__(self) -> Saver:
        return self

    def __exit__(self, *_: object) -> None:
        self.thread.shutdown(wait=True)

    def save(self, step: int, facts: dict[str, Any]) -> None:
        """Writes the checkpoint after `step` steps, or begins to.

        Deletes all but the last ones when it is on the disk. Raises CheckpointError for weights
        that are not finite, and if it or the checkpoint before it could not be written.
        """
        self.settle()
        if not self.sharded:
            path = checkpoint.save(
                self.out, step, self.model, self.optimizer, facts, self.world, keep=self.keep,
                beside=self.beside,
            )  # fmt: skip
            self.saved.append((step, path))
            return
        weights = {name: weight.detach() for name, weight in lora.merged(self.model).items()}
        checkpoint.refuse_spoilt(self.out, step, self._spoilt(weights))
        files = dict.fromkeys(weights, OF_WEIGHTS)
        state = checkpoint.state_of(self.model, self.optimizer)
        files |= dict.fromkeys(state, OF_OPTIMIZER)
        path = self.out / f"step_{step:06}"
        part = path.with_name(path.name + atomic.PART)
        if self.world.first:
            try:
                shutil.rmtree(part, ignore_errors=True)
                (part / SHARDS).mkdir(parents=True)
            except OSError as error:
                raise checkpoint.unwritten(path, error) from None
        self.world.wait()
        writer: Any = storage("HuggingFaceStorageWriter")
        copied: Any = async_save(
            weights | state,
            storage_writer=writer(str(part / SHARDS), files, save_distributed=True),
            process_group=self.group,
        )
        dtype = next(iter(weights.values())).dtype
        beside = dict(self.beside) | lora.files(self.model, facts)
        facts = checkpoint.stamped(facts, step)
        end = self.thread.submit(self._finish, copied, part, path, dtype, facts, beside)
        self.pending = step, end

    def written(self) -> list[tuple[int, Path]]:
        """Returns (step, path) of each checkpoint that has come to the disk since the last call.

        Raises CheckpointError if one could not be written.
        """
        if self.pending is not None and self.pending[1].done():
            self.settle()
        saved, self.saved = self.saved, []
        return saved

    def settle(self) -> None:
        """Waits for the checkpoint that is being written. Raises CheckpointError if it fails."""
        if self.pending is not None:
            (step, end), self.pending = self.pending, None
            self.saved.append((step, end.result()))

    def _spoilt(self, weights: Mapping[str, Tensor]) -> list[str]:
        """Returns the names of weights that are not finite, in any process."""
        bad = [not bool(torch.isfinite(local_tensor(weight)).all()) for weight in weights.values()]
        counts = self.world.sum(torch.tensor(bad, dtype=torch.int64, device=self.world.device))
        return [name for name, wrong in zip(weights, counts.tolist(), strict=True) if wrong]

    def _finish(
        self, copied: Future[Any], part: Path, path: Path, dtype: torch.dtype,
        facts: dict[str, Any], beside: Mapping[str, bytes],
    ) -> Path:  # fmt: skip
        """Gives a checkpoint its last files and its name, after the pieces are on the disk."""
        try:
            try:
                copied.result()
            except CheckpointException as error:  # no Exception, by its class
                raise _cause(error) from None
            names = (part / SHARDS).glob(f"shard-{self.world.rank + 1:05}-*")
            mine = checkpoint.measured(part, [f"{SHARDS}/{file.name}" for file in names])
            files = self._collected(mine)
            if self.world.first:
                checkpoint.complete(part, files, self.model, dtype, facts, beside)
                atomic.sync_files(part)
                shutil.rmtree(path, ignore_errors=True)
                os.replace(part, path)
                atomic.sync_folder(path.parent)
                checkpoint.drop_old(self.out, self.keep)
        except (OSError, SafetensorError) as error:
            raise checkpoint.unwritten(path, error) from None
        return path

    def _collected(self, mine: checkpoint.Files) -> checkpoint.Files:
        if self.world.size == 1:
            return mine
        all_: list[Any] | None = [None] * self.world.size if self.world.first else None
        dist.gather_object(mine, all_, dst=0, group=self.group)
        return {name: entry for files in all_ or () for name, entry in files.items()}


def _cause(error: CheckpointException) -> BaseException:
    """Returns what one of the processes has met: a full disk before all else."""
    met = [cause for cause, _ in error.failures.values()]
    return next((e for e in met if isinstance(e, OSError | SafetensorError)), met[0])


@torch.no_grad()
def restore(folder: Path, model: Net, optimizer: torch.optim.Optimizer, world: World) -> None:
    """Gives an optimizer the state of a checkpoint; of one in pieces, also the weights to a model.

    Each process reads what it will hold, and no more. Raises CheckpointError if that cannot be
    read.
    """
    if not is_sharded(folder):
        checkpoint.load_state(folder, model, optimizer)
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
        raise checkpoint.CheckpointError(f"{folder / SHARDS}: cannot be read: {error}") from None


def storage(name: str) -> Any:
    """Returns a class of torch that reads or writes pieces."""
    result: Any = getattr(dcp, name, None)
    if result is None:
        raise ConfigError("checkpoints in pieces need torch 2.9 or later: pip install -U torch")
    return result
