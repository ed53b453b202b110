"""What the tests of training share: small prepared data, and a model so small that a step takes no
time.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np

from mypt_cli.jsonl.paths import expand
from mypt_train import Options, prepare
from tests.support import forks, vocabulary

ROOT = Path(__file__).parents[2]
PHASES = sorted(str(path) for path in (ROOT / "examples").glob("phase*.jsonl"))
SHAPE = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}
# Those of torch, in this process and in others; conftest.py says how many.
THREADS = int(os.environ.get("OMP_NUM_THREADS", "1"))
TRAIN = {
    "steps": 8,
    "batch_rows": 2,
    "micro_rows": 1,
    "lr": 0.01,
    "warmup": 2,
    "threads": THREADS,
    "save_every": 0,
    "val_every": -1,
    "legality_every": -1,
}


def data(out: Path, paths: list[str] = PHASES, **options: Any) -> Path:
    """Prepares the examples, 26 episodes of all five phases, and returns the folder."""
    prepare(expand(paths), out, Options(**{"context_length": 512, "val_fraction": 0.2} | options))
    return out


def small_data(out: Path, paths: list[str] = PHASES, **options: Any) -> Path:
    """Prepares the examples on a vocabulary of 448 ids, for which a step is a tenth as much work."""
    chosen = {"vocabulary": str(vocabulary.path()), "context_length": 1024}
    return data(out, paths, **chosen | options)


def config(**train: Any) -> dict[str, Any]:
    return {"model": dict(SHAPE), "train": TRAIN | train}


def weights(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    from safetensors.numpy import load_file

    return dict(load_file(folder / "model.safetensors"))


def processes(
    code: list[str], count: int, *, modules: Sequence[str] = (), **more: str
) -> list[CompletedProcess[str]]:
    """Runs Python with these arguments in several processes, as torchrun would start them.

    Arguments without `-m` or `-c` are those of `mypt-train`. `modules` are imported beforehand.
    """
    code = code if code[0] in ("-m", "-c") else ["-m", "mypt.train", *code]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    env = os.environ | {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(count),
        "OMP_NUM_THREADS": str(THREADS),
    } | more  # fmt: skip
    ranks = [env | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]
    return forks.run([(code, rank) for rank in ranks], modules=modules)


def log(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
