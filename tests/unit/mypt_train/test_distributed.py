"""Two processes with two micro-batches each make the gradients of one big batch.

And torchrun's way through the command.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.build import write
from tests.support.tolerance import assert_close, forward_terms, is_close, path_of, tensors_apart
from tests.support.training import SHAPE, config, log, processes, small_data, weights

pytest.importorskip("torch")
from safetensors.numpy import load_file

from mypt_train.training.objective import Objective
from mypt_train.training.trainer import train
from tests.support import gradients as one_step
from tests.support.gradients import gradients

pytestmark = pytest.mark.numeric

# The tokens of four rows: a gradient sums over them.
LENGTH = 640
SUMMED = 4 * LENGTH


@pytest.fixture(scope="module")
def sft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_data(tmp_path_factory.mktemp("set") / "sft", context_length=LENGTH)


def test_gradients_are_those_of_one_big_batch(sft: Path, tmp_path: Path) -> None:
    """The rows have different numbers of trained tokens, so a mean of means would be another
    gradient.
    """
    words = ["-m", "tests.support.gradients", str(sft), str(tmp_path / "two"), "4", "1"]
    for end in processes(words, 2):
        assert end.returncode == 0, end.stderr
    gradients(sft, tmp_path / "one", 4, 4)
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
    fault: str, sft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the limits of the comparison above, in each gradient."""
    gradients(sft, tmp_path / "right", 4, 1)
    share, count, loss = one_step.share, Objective.count, Objective._loss
    if fault == "a row lost":
        monkeypatch.setattr(one_step, "share", lambda *given: share(*given)[1:])
    else:
        monkeypatch.setattr(Objective, "count", lambda self, batches: len(batches))
        monkeypatch.setattr(
            Objective, "_loss", lambda self, m, b, d: loss(self, m, b, d) / count(self, [b])
        )
    gradients(sft, tmp_path / "wrong", 4, 1)
    right, wrong = (load_file(tmp_path / name / "ddp.safetensors") for name in ("right", "wrong"))
    for name in right.keys() - {"loss"}:
        assert not is_close(wrong[name], right[name], terms=SUMMED), name


def test_the_command_in_two_processes(sft: Path, tmp_path: Path) -> None:
    """Sharded, with validation, and resumed by copies: the steps are those of one process."""
    few = {"legality_every": 4, "legality_prompts": 2, "legality_tokens": 60}
    chosen = config(parallel="fsdp", steps=4, save_every=2, val_every=4, **few)
    words = ["--config", write(tmp_path / "c.json", chosen), "--out", str(tmp_path / "run"), "-q"]
    words = ["--data", str(sft), *words]
    ends = processes([*words, "--steps", "2", "--set", "train.legality_every=-1"], 2)
    for rank, end in enumerate(ends):
        assert end.returncode == 0, end.stderr
        assert bool(end.stdout) == (rank == 0)
    for end in processes([*words, "--resume", "--set", "train.parallel=ddp"], 2):
        assert end.returncode == 0, end.stderr
    chosen["train"]["legality_every"] = -1
    train(sft, chosen, tmp_path / "one")
    runs = [tmp_path / name for name in ("run", "one")]
    two, one = (weights(run / "step_000004") for run in runs)
    terms = forward_terms(SHAPE, LENGTH)
    assert tensors_apart(two, one, terms=terms, path=path_of(chosen)) == []
    shared, alone = ({entry["event"]: entry for entry in log(run)} for run in runs)
    assert shared["validation"]["tokens"] == alone["validation"]["tokens"]
    losses = [entry["validation"]["loss"] for entry in (shared, alone)]
    assert_close(*losses, terms=terms, dtype=np.float32)
    assert shared["legality"]["constrained"]["legal"] == 1.0
