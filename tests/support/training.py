"""What the tests of training share: small prepared data, and a model so small that a step takes no
time.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from mypt_cli.jsonl.paths import expand
from mypt_train import Options, prepare
from tests.support.children import child

ROOT = Path(__file__).parents[2]
PHASES = sorted(str(path) for path in (ROOT / "examples").glob("phase*.jsonl"))
SHAPE = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}
TRAIN = {
    "steps": 8,
    "batch_rows": 2,
    "micro_rows": 1,
    "lr": 0.01,
    "warmup": 2,
    "threads": 1,
    "save_every": 0,
    "val_every": -1,
    "legality_every": -1,
}


def data(out: Path, paths: list[str] = PHASES, **options: Any) -> Path:
    """The examples, prepared: 26 episodes of all five phases."""
    prepare(expand(paths), out, Options(**{"context_length": 512, "val_fraction": 0.2} | options))
    return out


def config(**train: Any) -> dict[str, Any]:
    return {"model": dict(SHAPE), "train": TRAIN | train}


def weights(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    from safetensors.numpy import load_file

    return dict(load_file(folder / "model.safetensors"))


def processes(code: list[str], count: int, **more: str) -> list[subprocess.CompletedProcess[str]]:
    """Run Python with these arguments in several processes, as torchrun would start them.

    Arguments without `-m` or `-c` are those of `mypt-train`.
    """
    code = code if code[0] in ("-m", "-c") else ["-m", "mypt_train", *code]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    env = (
        os.environ
        | {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "WORLD_SIZE": str(count),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
        }
        | more
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    out = []
    with ExitStack() as ends:
        running = [
            ends.enter_context(
                child(
                    [sys.executable, *code],
                    env=env | {"RANK": str(r), "LOCAL_RANK": str(r)},
                    **pipes,
                )
            )
            for r in range(count)
        ]
        for process in running:
            printed, errors = process.communicate(timeout=240)
            done = subprocess.CompletedProcess(process.args, process.returncode, printed, errors)
            out.append(done)
    return out


def log(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
