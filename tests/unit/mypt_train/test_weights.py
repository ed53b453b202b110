"""Weights of messages in shards and in the loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mypt_spec
from mypt.lint.cli import main as lint
from mypt.prepare.cli import main
from mypt_train import PrepareError, ShardError, ShardReader
from mypt_train.training.batches import batch
from mypt_train.training.corpus import corpus, open_data
from mypt_train.training.objective import Objective
from mypt_train.training.parts.config import Config
from mypt_train.training.parts.distributed import World
from mypt_train.training.parts.head import chunked_cross_entropy
from tests.support.build import assistant, chat, user, write
from tests.support.shards import manifest_of, prepare_files
from tests.support.tolerance import assert_close

D = mypt_spec.dialect("chatml")


def record(text: str, *weights: float | None) -> dict[str, Any]:
    """Returns questions and answers; None is an answer without a weight."""
    return chat(*(
        part for weight in weights
        for part in (user(text), assistant("Yes.", **({} if weight is None else {"weight": weight})))
    ))  # fmt: skip


def prepare_records(out: Path, *records: dict[str, Any], **options: Any) -> dict[str, Any]:
    path = write(out.with_suffix(".jsonl"), *records)
    return prepare_files([path], out, **{"dialect": "chatml", **options})


RECORDS = [record("a", None), record("b", 0.5, 2), record("c", 0, 1), record("d", 0, 0.25)]


def test_shards_hold_weights(tmp_path: Path) -> None:
    manifest = prepare_records(tmp_path / "out", *RECORDS)
    assert (manifest["weighed"], manifest["weights_dtype"]) == (3, "float32")
    (shard,) = ShardReader(tmp_path / "out", verify=True).shards()
    assert shard.weights is not None
    for entry in shard.index:
        episode, _ = D.read(RECORDS[int(entry["line"]) - 1])
        assert episode is not None
        encoded = D.encode(episode)
        expected = encoded.loss.astype(float) if encoded.weights is None else encoded.weights
        piece = slice(int(entry["start"]), int(entry["start"]) + int(entry["length"]))
        assert shard.weights[piece].tolist() == expected.tolist()
        assert shard.mask[piece].tolist() == encoded.loss.tolist()
    assert lint(["--no-config", str(tmp_path / "out")]) == 0


def test_weights_of_0_and_1_need_no_file(tmp_path: Path) -> None:
    manifest = prepare_records(tmp_path / "a", RECORDS[0], RECORDS[2])
    assert (manifest["weighed"], "weights_dtype" in manifest) == (1, False)
    (shard,) = ShardReader(tmp_path / "a").shards()
    assert shard.weights is None
    assert lint(["--no-config", str(tmp_path / "a")]) == 0
    assert "weighed" not in prepare_records(tmp_path / "b", record("a", 1))


@pytest.mark.parametrize(
    ("options", "weighed"),
    [({}, 4), ({"history": "per-turn"}, 3), ({"mask": "last"}, 1), ({"mask": "no-think"}, 4)],
)
def test_episodes_in_which_no_weight_acts_are_not_counted(
    tmp_path: Path, options: dict[str, str], weighed: int
) -> None:
    """An answer that is the context of a later one has no weight there."""
    answers = [(0.5, None, None), (None, 2, None), (0, None, None), (None, None, 0.25)]
    records = [record(text, *weights) for text in "ab" for weights in answers]
    assert prepare_records(tmp_path / "once", *records[:4], **options)["weighed"] == weighed
    manifest = prepare_records(tmp_path / "fast", *records * 3, **options)
    assert manifest["weighed"] == 6 * weighed, "by templates, too"
    assert lint(["--no-config", str(tmp_path / "fast")]) == 0


@pytest.mark.parametrize(
    "form", ["trl", pytest.param("parquet", marks=pytest.mark.extra("pyarrow"))]
)
def test_other_formats_refuse_weights(form: str, tmp_path: Path) -> None:
    with pytest.raises(PrepareError, match=f"the format {form} has no place for weights"):
        prepare_records(tmp_path / form, *RECORDS, format=form)


def test_weights_that_contradict_the_mask_are_refused(tmp_path: Path) -> None:
    prepare_records(tmp_path / "out", *RECORDS)
    path = tmp_path / "out" / "train" / "shard_00000_weights.bin"
    weights = np.fromfile(path, "<f4")
    for bad in (-1.0, float("nan"), 3.0):
        weights[0] = bad
        weights.tofile(path)
        with pytest.raises(ShardError, match=r"has weight .* at token 0, whose mask is 0"):
            list(ShardReader(tmp_path / "out").shards())


@pytest.mark.numeric
def test_the_loss_is_the_weighted_mean(tmp_path: Path) -> None:
    """Against autograd on dense logits; and a batch has the weights of its targets."""
    prepare_records(tmp_path / "out", *RECORDS)
    data = corpus(open_data([tmp_path / "out"]), "train")
    one_batch = batch(data, data.rows())
    assert one_batch.weights is not None
    assert sorted({*one_batch.weights.tolist()}) == [0.25, 0.5, 1.0, 2.0]
    assert batch(data, data.rows(), every=True).weights is None
    config = Config.load({"train": {"objective": "sft"}}).train
    divisor = Objective(config, data, World(0, 1, torch.device("cpu"))).count([one_batch])
    assert divisor == float(one_batch.weights.sum()) != len(one_batch.targets)
    generator = torch.Generator().manual_seed(0)
    targets = one_batch.targets % 50
    hidden, head = (torch.randn(n, 8, generator=generator) for n in (len(targets), 50))
    grads = []
    for ours in (True, False):
        h, w = (t.clone().requires_grad_() for t in (hidden, head))
        if ours:
            total = chunked_cross_entropy(h, w, targets, one_batch.weights)[0]
        else:
            losses = torch.nn.functional.cross_entropy(h @ w.T, targets, reduction="none")
            total = (losses * one_batch.weights).sum()
        (total / divisor).backward()
        assert h.grad is not None
        assert w.grad is not None
        grads.append((total.detach(), h.grad, w.grad))
    for one, other in zip(*grads, strict=True):
        assert_close(one, other, terms=len(targets) * 58)


def test_records_of_sharegpt_are_prepared_with_weights(tmp_path: Path) -> None:
    turns = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yes.", "weight": 0.5}]
    path = write(tmp_path / "in.jsonl", {"conversations": turns})
    run = [path, "--dialect", "chatml", "--no-config", "-q"]
    assert main([*run, "--out", str(tmp_path / "out")]) == 0
    manifest = manifest_of(tmp_path / "out")
    assert (manifest["weighed"], manifest["weights_dtype"]) == (1, "float32")
