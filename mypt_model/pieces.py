"""Reads the weights of a sharded checkpoint: pieces of tensors, in a file for each process.

Input: the folder `shards/` of a checkpoint, as torch.distributed.checkpoint writes it in the format
of safetensors. Output: whole tensors by their names. The header of each file says at which offsets
its pieces belong. The file of process 1 with weights is `shard-00001-model-00001-of-00002`, that
with the state of the optimizer `shard-00001-model-00002-of-00002`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mypt_model.shape import ModelError

if TYPE_CHECKING:
    from torch import Tensor

SHARDS = "shards"
# Which of the two files of a process has what.
OF_WEIGHTS, OF_OPTIMIZER = 1, 2
_INFO, _OFFSETS = "DCP_SHARDING_INFO", "saved_offsets"


def is_sharded(folder: Path) -> bool:
    """Returns whether a folder holds a model in pieces."""
    return (folder / SHARDS).is_dir()


def files_of_weights(folder: Path) -> list[Path]:
    """Returns the files with pieces of weights, in the order of the processes that wrote them."""
    return sorted((folder / SHARDS).glob(f"*-model-{OF_WEIGHTS:05}-of-*.safetensors"))


def each_piece(folder: Path) -> dict[str, Callable[[], Tensor]]:
    """Returns a function for each weight of a sharded checkpoint, by name, that puts it together.

    Raises ModelError, naming the file, if one cannot be read, and naming the weight, if a piece of
    it is missing, here and when a weight is read.
    """
    pieces_by_name: dict[str, list[tuple[list[int], Callable[[], Tensor]]]] = {}
    for path in files_of_weights(folder):
        opened = opened_tensors(path)
        try:
            info = json.loads(opened.metadata()[_INFO])
            for name in opened.keys():  # noqa: SIM118 -- it is no dictionary
                at: list[int] = info[name][_OFFSETS]
                pieces_by_name.setdefault(name, []).append((at, partial(opened.get_tensor, name)))
        except (ValueError, KeyError, TypeError) as error:
            raise ModelError(f"cannot read {path}: {error}") from None
    if not pieces_by_name:
        raise ModelError(f"{folder / SHARDS} holds no weights")
    return {name: partial(_joined, folder, name, pieces) for name, pieces in pieces_by_name.items()}


def opened_tensors(path: Path) -> Any:
    """Returns a file of safetensors, open. Raises ModelError, naming it, if it cannot be read."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise ModelError(
            "reading weights needs safetensors: pip install 'mypt-tags[infer]'"
        ) from None
    try:
        return safe_open(path, "pt")
    except (SafetensorError, OSError) as error:
        message = f"cannot read {path}: {error}; download the file again"
        if path.is_file() and path.stat().st_size < 1000 and b"git-lfs" in path.read_bytes():
            message = f"{path} is a pointer of Git LFS, not the file: git lfs pull"
        raise ModelError(message) from None


def _joined(
    folder: Path, name: str, pieces: list[tuple[list[int], Callable[[], Tensor]]]
) -> Tensor:
    import torch

    parts = [(begin, piece()) for begin, piece in pieces]
    ends = [[at + n for at, n in zip(begin, piece.shape, strict=True)] for begin, piece in parts]
    size = [max(end) for end in zip(*ends, strict=True)]
    if sum(piece.numel() for _, piece in parts) != math.prod(size):
        raise ModelError(f"{folder / SHARDS}: a piece of {name} is missing")
    out = torch.empty(size, dtype=parts[0][1].dtype)
    for (begin, piece), end in zip(parts, ends, strict=True):
        out[tuple(map(slice, begin, end))] = piece
    return out
