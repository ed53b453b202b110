"""Joins several processes, as torchrun starts them: roles, sums, and the model over all of them.

The model is copied to each process (DDP) or its weights are shared among them (FSDP2).
"""

import contextlib
import os
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mypt_model.pretrained import Net


class World(NamedTuple):
    """This process among all. `first` writes and prints."""

    rank: int
    size: int
    device: torch.device

    @property
    def first(self) -> bool:
        return self.rank == 0

    def shares(self, strategy: str) -> bool:
        """Returns whether the processes share the weights of a model."""
        return strategy == "fsdp" and self.size > 1

    def sum(self, values: Tensor) -> Tensor:
        """Returns the sum over all processes, on each of them; changes the tensor in place."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def broadcast(self, value: Any) -> Any:
        """Returns what the first process gives; all processes call it."""
        shared = [value]
        if self.size > 1:
            dist.broadcast_object_list(shared, src=0, device=self.device)
        return shared[0]

    def wait(self) -> None:
        """Waits until all processes are here."""
        if self.size > 1:
            dist.barrier()


ALONE = World(0, 1, torch.device("cpu"))


class ProcessLost(Exception):
    """A process of several is gone, or never came; the message says what to do."""


@contextlib.contextmanager
def joined(device: str | None = None, *, timeout: float = 1800) -> Iterator[World]:
    """Joins the processes that torchrun has started; yields this one. Without torchrun it is alone.

    Processes talk by NCCL on GPUs, else by gloo, and wait for each other for `timeout` seconds.
    Raises ProcessLost if one never comes, or is gone later.
    """
    size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if where.type == "cuda" and where.index is None:
        where = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(where)
    if size == 1:
        yield World(0, 1, where)
        return
    try:
        _join(rank, size, where, timeout)
    except (RuntimeError, ValueError) as error:
        reason = str(error).partition("\n")[0].rstrip(". ")
        raise ProcessLost(
            f"the {size} processes did not find each other: {reason}; start them all at once, with "
            "torchrun"
        ) from None
    try:
        yield World(rank, size, where)
    except RuntimeError as error:
        if not _LOST.search(str(error)):
            raise
        raise ProcessLost(
            f"process {rank} of {size} lost the others: one has ended, or its machine is gone; see "
            "what it said, and go on from the last whole checkpoint with --resume, with as many "
            "processes as there are"
        ) from None
    finally:
        dist.destroy_process_group()


# What gloo, NCCL and the store say when the other end is gone or does not answer.
_LOST = re.compile(r"gloo|NCCL|[Cc]onnection|Broken pipe|[Tt]imed out|Socket")


def _join(rank: int, size: int, where: torch.device, timeout: float) -> None:
    wait = timedelta(seconds=timeout)
    backend = "nccl" if where.type == "cuda" else "gloo"
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        # The launcher may keep its store when it starts the processes again, with the addresses of
        # those that have ended.
        attempt = f"attempt_{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
        stores: Any = dist
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = stores.TCPStore(address, port, is_master=False, timeout=wait)
        first = stores.PrefixStore(attempt, store)
        dist.init_process_group(backend, store=first, rank=rank, world_size=size, timeout=wait)
    else:
        dist.init_process_group(backend, timeout=wait)


def use_threads(threads: int | None, hidden_size: int, world: World) -> int | None:
    """Sets the number of threads that torch uses, and returns it; returns None on a GPU.

    Without `threads`, it is the number in OMP_NUM_THREADS, which torchrun sets, or else one thread
    for each 128 x 128 of a weight, but at most one for each core of this process. Threads that wait
    for each other at each small product cost ten times what they save as soon as anything else runs
    on their cores. The same model on the same machine always has the same number, because sums of
    floats depend on it.
    """
    if threads is None and world.device.type != "cpu":
        return None
    if threads is None and "OMP_NUM_THREADS" in os.environ:
        return torch.get_num_threads()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    number = threads or max(1, min((hidden_size // 128) ** 2, (cores or 1) // here))
    torch.set_num_threads(number)
    return number


def precision(name: str, device: torch.device) -> torch.dtype:
    """Returns the dtype to compute in.

    "auto" is bfloat16 on a GPU that has it in hardware, and float32 elsewhere.
    """
    if name == "auto":
        name = "float32"
        if device.type == "cuda" and torch.cuda.is_bf16_supported():
            name = "bfloat16"
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def spread_out(model: Net, world: World, strategy: str, dtype: torch.dtype) -> nn.Module:
    """Returns the model as it is called in training.

    "ddp": each process has a copy, and gradients are averaged. "fsdp": each process holds a part of
    all weights. `dtype` is what sharded weights are computed in.
    """
    model.to(world.device)
    if world.shares(strategy):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        policy = MixedPrecisionPolicy()
        if dtype != torch.float32:
            policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
        mesh = init_device_mesh(world.device.type, (world.size,))
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)
        return model
    if world.size > 1:
        from torch.nn.parallel import DistributedDataParallel

        devices = [world.device.index] if world.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=devices)
    return model


@torch.no_grad()
def send_weights(model: Net, values: dict[str, Tensor], world: World) -> None:
    """Gives each process its pieces of the weights of a model, and all of its buffers.

    The first process has whole weights in `values`, which this empties; other processes give none,
    and have one whole weight at a time. All processes call it.
    """
    for name, weight in model.named_parameters():
        value = values.pop(name) if world.first else torch.empty(weight.shape, dtype=weight.dtype)
        weight.copy_(piece(value, weight, source=0))
    for buffer in model.buffers():
        dist.broadcast(buffer, 0)


@contextlib.contextmanager
def last_of(model: nn.Module, *, last: bool) -> Iterator[None]:
    """Lets copies of a model exchange gradients only in the last micro-batch of a step."""
    no_sync: Any = getattr(model, "no_sync", None)
    with contextlib.nullcontext() if last or no_sync is None else no_sync():
        yield


def reshard(model: nn.Module) -> None:
    """Shards weights again after a forward pass without a backward pass.

    Otherwise they would stay whole, and be other objects than the optimizer's.
    """
    shard: Any = getattr(model, "reshard", None)
    if shard is not None:
        shard()


def full_tensor(tensor: Tensor) -> Tensor:
    """Returns a tensor as one process would hold it; all processes must call this."""
    from torch.distributed.tensor import DTensor

    if isinstance(tensor, DTensor):
        tensor = tensor.full_tensor()
    return tensor.detach()


def piece(tensor: Tensor, pattern: Tensor, *, source: int | None = None) -> Tensor:
    """Returns this process's part of a whole tensor, which is sharded as `pattern` is.

    Every process has the tensor, or only the one of the rank `source`.
    """
    from torch.distributed.tensor import DTensor, distribute_tensor

    tensor = tensor.to(pattern.device)
    if not isinstance(pattern, DTensor):
        return tensor
    mesh, placements = pattern.device_mesh, pattern.placements
    return distribute_tensor(tensor, mesh, placements, src_data_rank=source)
