"""Two processes with two micro-batches each make the gradients of one big batch.

And torchrun's way through the command.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.tolerance import assert_close, forward_terms, is_close, path_of, tensors_apart
from tests.support.training import SHAPE, config, data, log, processes, weights

pytest.importorskip("torch")
from safetensors.numpy import load_file

from mypt_train.training.objective import Objective
from mypt_train.training.trainer import train
from tests.support import gradients as one_step
from tests.support.gradients import gradients

pytestmark = pytest.mark.numeric

# The tokens of four rows: a gradient sums over them.
SUMMED = 4 * 512


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
        for name, gradient in one.items():
            assert_close(two[name], gradient, terms=SUMMED)


@pytest.mark.parametrize("fault", ["a row lost", "a mean of means"])
def test_faults_of_gradients_are_seen(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the limits of the comparison above, in each gradient."""
    sft = data(tmp_path / "sft")
    gradients(sft, tmp_path / "right", 4, 1, "sft")
    share, count, loss = one_step.share, Objective.count, Objective._loss
    if fault == "a row lost":
        monkeypatch.setattr(one_step, "share", lambda *given: share(*given)[1:])
    else:
        monkeypatch.setattr(Objective, "count", lambda self, batches: len(batches))
        monkeypatch.setattr(
            Objective, "_loss", lambda self, m, b, d: loss(self, m, b, d) / count(self, [b])
        )
    gradients(sft, tmp_path / "wrong", 4, 1, "sft")
    right, wrong = (load_file(tmp_path / name / "ddp.safetensors") for name in ("right", "wrong"))
    for name in right.keys() - {"loss"}:
        assert not is_close(wrong[name], right[name], terms=SUMMED), name


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
    terms = forward_terms(SHAPE, 512)
    assert tensors_apart(two, one, terms=terms, path=path_of(made)) == []
    found = {entry["event"]: entry for entry in log(tmp_path / "run")}
    alone = {entry["event"]: entry for entry in log(tmp_path / "one")}
    assert found["validation"]["tokens"] == alone["validation"]["tokens"]
    losses = [entry["validation"]["loss"] for entry in (found, alone)]
    assert_close(*losses, terms=terms, dtype=np.float32)
    assert found["legality"]["constrained"]["legal"] == 1.0
