"""When a process is killed, the others end, and any number of processes goes on.

The run that is killed here is the one that is resumed, with one process and with three.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import write
from tests.support.tolerance import assert_close, forward_terms, is_close, path_of, tensors_apart
from tests.support.training import SHAPE, config, log, processes, small_data
from tests.support.vocabulary import small

torch = pytest.importorskip("torch")

from mypt_model.folder import checkpoints, read_weights  # noqa: E402
from mypt_model.llama import random_transformer  # noqa: E402
from mypt_model.shape import LlamaConfig  # noqa: E402
from mypt_train.training.batches import batch, idle, share  # noqa: E402
from mypt_train.training.corpus import corpus, open_data  # noqa: E402
from mypt_train.training.objective import Objective  # noqa: E402
from mypt_train.training.parts.config import Config  # noqa: E402
from mypt_train.training.parts.distributed import World as Ranks  # noqa: E402
from mypt_train.training.trainer import train  # noqa: E402

pytestmark = pytest.mark.numeric

STEPS, KILLED = 8, 5
CONFIG = config(steps=STEPS, batch_rows=4, save_every=2, log_every=1, parallel="fsdp")
# Trains; the second process is killed when it begins the step after KILLED.
DIES = f"""
import os, signal, sys
from mypt.train import main
from mypt_train.training.objective import Objective
real, done = Objective.step, []
def step(self, *arguments):
    done.append(1)
    if len(done) > {KILLED} and self.world.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, *arguments)
Objective.step = step
sys.exit(main(sys.argv[1:]))
"""


@dataclass(frozen=True)
class Run:
    """What a run with a process that was killed has left."""

    sft: Path
    out: Path
    args: list[str]
    ends: list[CompletedProcess[str]]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("elastic")
    sft = small_data(folder / "sft")
    args = ["--data", str(sft), "--config", write(folder / "c.json", CONFIG), "-q"]
    ends = processes(["-c", DIES, *args, "--out", str(folder / "run")], 2)
    return Run(sft, folder / "run", args, ends)


@pytest.fixture(scope="module")
def alone(killed: Run) -> Path:
    """The same run by one process, from its beginning to its end."""
    train(killed.sft, CONFIG, killed.out.with_name("alone"))
    return killed.out.with_name("alone")


def steps(folder: Path) -> list[dict[str, Any]]:
    entries = [entry for entry in log(folder) if entry["event"] == "step"]
    assert [entry["step"] for entry in entries] == list(range(1, STEPS + 1))
    return entries


def test_the_others_end_and_say_why(killed: Run) -> None:
    first, second = killed.ends
    assert second.returncode == -9
    assert first.returncode == 2, first.stderr
    (error,) = (line for line in first.stderr.splitlines() if "mypt-train: error:" in line)
    assert "process 0 of 2 lost the others: one has ended" in error
    assert "go on from the last whole checkpoint with --resume" in error
    folder = checkpoints(killed.out)[-1]
    assert int(folder.name[5:]) in (2, 4), "whole, as trainer.json says"


@pytest.mark.parametrize("count", [1, 3])
def test_any_number_of_processes_goes_on(
    count: int, killed: Run, alone: Path, tmp_path: Path
) -> None:
    """They read the same rows: each step counts the same targets, and has the same loss.

    Three cannot share four rows evenly.
    """
    shutil.copytree(killed.out, tmp_path / "run")
    if count == 1:
        train(killed.sft, CONFIG, tmp_path / "run", resume=True)
    else:
        ends = processes([*killed.args, "--out", str(tmp_path / "run"), "--resume"], count)
        for end in ends:
            assert end.returncode == 0, end.stderr
    mine, theirs = steps(tmp_path / "run"), steps(alone)
    assert [e["counted"] for e in mine] == [e["counted"] for e in theirs]
    losses = [[entry["loss"] for entry in entries] for entries in (mine, theirs)]
    terms = forward_terms(SHAPE, 512)
    assert_close(*losses, terms=terms, dtype=np.float32)
    assert not is_close(losses[0][1:], losses[1][:-1], terms=terms, dtype=np.float32), "a step lost"
    last = f"step_{STEPS:06}"
    assert log(tmp_path / "run")[-1] == {"event": "checkpoint", "step": STEPS, "folder": last}
    ours, others = (read_weights(run / last) for run in (tmp_path / "run", alone))
    assert set(ours) == set(others)
    allowed = {"terms": terms, "path": path_of(CONFIG)}
    assert tensors_apart(ours, others, **allowed) == []
    earlier = read_weights(alone / f"step_{STEPS - 2:06}")
    assert tensors_apart(earlier, others, **allowed) == list(others), "the last steps lost"
    table = "model.embed_tokens.weight"
    one_row = others | {table: others[table].clone()}
    (space,) = small("mypt").tokenizer.encode(" ")
    one_row[table][space] = earlier[table][space]
    assert tensors_apart(one_row, others, **allowed) == [table], "one row lost"


@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 9))
def test_each_row_is_read_once(count: int, size: int, micro: int) -> None:
    rows = [np.array([number]) for number in range(count)]
    shares = [share(rows, rank, size, micro) for rank in range(size)]
    assert [row for part in shares for some in part for row in some] == rows
    assert len({len(part) for part in shares}) == 1, "all run the model equally often"
    assert all(len(some) <= micro for part in shares for some in part)
    read = [sum(map(len, part)) for part in shares]
    assert max(read) - min(read) <= 1


@pytest.mark.parametrize("name", ["sft", "orpo", "dpo", "kto"])
def test_a_batch_without_rows_counts_for_nothing(name: str, killed: Run) -> None:
    """Its loss is 0, and so are all gradients; every weight has one."""
    chosen = Config.load({"model": SHAPE, "train": {"objective": name}}).train
    some = corpus(open_data([killed.sft]), "train")
    model = random_transformer(LlamaConfig(vocab_size=448, **SHAPE), 1)
    frozen = random_transformer(model.config, 2).requires_grad_(False)
    objective = Objective(chosen, some, Ranks(0, 1, torch.device("cpu")), frozen)
    nothing = idle(batch(some, some.rows()[:1]))
    assert objective.count([nothing]) == nothing.tokens == 0
    loss = objective.step(model, [nothing], 1)
    assert float(loss) == 0
    assert all(w.grad is not None and not w.grad.any() for w in model.parameters())
