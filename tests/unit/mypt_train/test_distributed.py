"""Two processes with two micro-batches each make the gradients of one big batch.

And torchrun's way through the command.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.training import config, data, log, processes, weights

pytest.importorskip("torch")
from safetensors.numpy import load_file

from mypt_train.training.trainer import train
from tests.support.gradients import gradients


def test_gradients_are_those_of_one_big_batch(tmp_path: Path) -> None:
    """The rows have different numbers of trained tokens, so a mean of means would be another
    gradient.
    """
    sft = data(tmp_path / "sft")
    for done in processes(
        ["-m", "tests.support.gradients", str(sft), str(tmp_path / "two"), "4", "1", "sft"], 2
    ):
        assert done.returncode == 0, done.stderr
    gradients(sft, tmp_path / "one", 4, 4, "sft")
    one = load_file(tmp_path / "one" / "ddp.safetensors")
    assert len(one) == 21
    assert max(float(np.abs(g).max()) for name, g in one.items() if name != "loss") > 1e-3
    for strategy in ("ddp", "fsdp"):
        two = load_file(tmp_path / "two" / f"{strategy}.safetensors")
        assert set(two) == set(one)
        assert max(float(np.abs(two[name] - one[name]).max()) for name in one) < 1e-6


def test_the_command_in_two_processes(tmp_path: Path) -> None:
    """Sharded, with validation, and resumed by copies: the steps are those of one process."""
    sft = data(tmp_path / "sft")
    made = config(
        parallel="fsdp",
        steps=4,
        save_every=2,
        val_every=4,
        legality_every=4,
        legality_prompts=2,
        legality_tokens=40,
    )
    (tmp_path / "c.json").write_text(json.dumps(made))
    command = [
        "-m",
        "mypt_train",
        "--data",
        str(sft),
        "--config",
        str(tmp_path / "c.json"),
        "--out",
        str(tmp_path / "run"),
        "-q",
    ]
    for rank, done in enumerate(
        processes([*command, "--steps", "2", "--set", "train.legality_every=-1"], 2)
    ):
        assert done.returncode == 0, done.stderr
        assert bool(done.stdout) == (rank == 0)
    for done in processes([*command, "--resume", "--set", "train.parallel=ddp"], 2):
        assert done.returncode == 0, done.stderr
    made["train"]["legality_every"] = -1
    train(sft, made, tmp_path / "one")
    two, one = weights(tmp_path / "run" / "step_000004"), weights(tmp_path / "one" / "step_000004")
    assert max(float(np.abs(two[name] - one[name]).max()) for name in one) < 1e-4
    found = {entry["event"]: entry for entry in log(tmp_path / "run")}
    alone = {entry["event"]: entry for entry in log(tmp_path / "one")}
    assert found["validation"]["tokens"] == alone["validation"]["tokens"]
    assert abs(found["validation"]["loss"] - alone["validation"]["loss"]) < 1e-3
    assert found["legality"]["constrained"]["legal"] == 1.0
