"""Checkpoints in pieces: the same run as with whole ones, and never half of one.

`test_elastic.py` has those of several processes.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.support.training import config, small_data

torch = pytest.importorskip("torch")
from torch.distributed.checkpoint import HuggingFaceStorageWriter  # noqa: E402

from mypt.export import main as exports  # noqa: E402
from mypt_model.folder import checkpoints, read_weights  # noqa: E402
from mypt_model.shape import ModelError  # noqa: E402
from mypt_train.training.parts import storage  # noqa: E402
from mypt_train.training.parts.config import Config, ConfigError  # noqa: E402
from mypt_train.training.trainer import CheckpointError, train  # noqa: E402

pytestmark = pytest.mark.numeric

JSON_FILE = config(steps=4, save_every=2, checkpoint="sharded")
LAST = "step_000004"


@pytest.fixture(scope="module")
def sft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_data(tmp_path_factory.mktemp("set") / "sft")


@pytest.fixture(scope="module")
def runs(sft: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run with whole checkpoints, and in pieces, and in pieces with a stop."""
    folder = tmp_path_factory.mktemp("runs")
    train(sft, config(steps=4), folder / "whole")
    train(sft, JSON_FILE, folder / "pieces")
    train(sft, JSON_FILE, folder / "stopped", steps=3)
    train(sft, JSON_FILE, folder / "stopped", resume=True)
    return folder


def state(folder: Path) -> dict[str, Any]:
    """The optimizer's state in a file, or in the pieces of one process."""
    from safetensors.torch import load_file

    (path,) = [*folder.glob("optimizer.*"), *folder.glob("shards/*-model-00002-of-*")]
    return dict(load_file(path))


def test_the_run_is_the_same_to_the_bit(runs: Path) -> None:
    for tensors_of in (read_weights, state):
        whole, *others = (tensors_of(runs / name / LAST) for name in ("whole", "pieces", "stopped"))
        for other in others:
            assert set(whole) == set(other)
            assert all(torch.equal(tensor, other[name]) for name, tensor in whole.items())
    shape = [(runs / name / LAST / "config.json").read_bytes() for name in ("whole", "pieces")]
    assert shape[0] == shape[1]


def test_it_goes_on_with_whole_ones(runs: Path, sft: Path, tmp_path: Path) -> None:
    """And says nothing of how it is written where that is the default."""
    shutil.copytree(runs / "pieces" / "step_000002", tmp_path / "run" / "step_000002")
    train(sft, config(steps=4), tmp_path / "run", resume=True)
    for name in ("model.safetensors", "trainer.json"):
        here = tmp_path / "run" / LAST / name
        assert here.read_bytes() == (runs / "whole" / LAST / name).read_bytes()


def test_what_is_copied_is_not_what_is_trained(
    runs: Path, sft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pieces of step 2 are written when step 3 is done."""
    later, real, step = Event(), HuggingFaceStorageWriter.write_data, storage.Saver.written
    seen = []

    def waits(self: Any, *args: Any) -> Any:
        later.wait(300)
        return real(self, *args)

    def written(self: storage.Saver) -> Any:
        seen.append(self.pending)
        if len(seen) == 3:
            later.set()
        return step(self)

    monkeypatch.setattr(HuggingFaceStorageWriter, "write_data", waits)
    monkeypatch.setattr(storage.Saver, "written", written)
    train(sft, JSON_FILE, tmp_path / "run")
    assert seen[1] is not None
    assert seen[1] is seen[2], "step 3 did not wait"
    for folder in ("step_000002", LAST):
        mine, theirs = (read_weights(run / folder) for run in (tmp_path / "run", runs / "pieces"))
        assert all(torch.equal(mine[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("files", [0, 1, 2])
def test_half_of_one_is_none(
    files: int, sft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ended while the last files are written: before the first, between them, before the name."""
    left = [3 + files]  # after the two files and the name of the first checkpoint

    def until_full(real: Any) -> Any:
        def write_if_free(*args: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(28, "No space left on device")
            return real(*args, **more)

        return write_if_free

    monkeypatch.setattr(Path, "write_text", until_full(Path.write_text))
    monkeypatch.setattr(storage.os, "replace", until_full(os.replace))
    with pytest.raises(
        CheckpointError, match=r"step_000004: cannot be written: .*No space left.*step_000002"
    ):
        train(sft, JSON_FILE, tmp_path / "run")
    assert (tmp_path / "run" / f"{LAST}.part" / "shards").is_dir()
    assert [path.name for path in checkpoints(tmp_path / "run")] == ["step_000002"]
    monkeypatch.undo()
    assert train(sft, JSON_FILE, tmp_path / "run", resume=True).folder == tmp_path / "run" / LAST
    assert not list((tmp_path / "run").glob("*.part"))


def test_a_piece_that_is_missing_or_altered(runs: Path, sft: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "pieces", tmp_path / "run")
    weights, moments = sorted((tmp_path / "run" / LAST / "shards").iterdir())
    raw = bytearray(moments.read_bytes())
    raw[-1] ^= 1
    moments.write_bytes(raw)
    with pytest.raises(
        CheckpointError, match=r"shard-00001-model-00002-of-00002.safetensors: is missing or was"
    ):
        train(sft, JSON_FILE, tmp_path / "run", resume=True)
    weights.unlink()
    with pytest.raises(ModelError, match="shards holds no weights"):
        read_weights(tmp_path / "run" / LAST)
    weights.write_bytes(b"x")
    with pytest.raises(ModelError, match=f"cannot read {weights}"):
        read_weights(tmp_path / "run" / LAST)


def test_others_read_it(runs: Path, sft: Path, tmp_path: Path) -> None:
    """A run begins with it, and an export puts the pieces together."""
    train(sft, config(steps=1, lr=1e-9), tmp_path / "run", init_from=runs / "pieces")
    assert exports([str(runs / "pieces"), str(tmp_path / "exported")]) == 0
    assert exports([str(runs / "whole"), str(tmp_path / "wanted")]) == 0
    mine, theirs = (tmp_path / name / "model.safetensors" for name in ("exported", "wanted"))
    assert mine.read_bytes() == theirs.read_bytes()


def test_configs_that_cannot_be() -> None:
    model = config()["model"]
    for change, says in [
        ({"checkpoint": "shard"}, "did you mean 'sharded'"),
        ({"timeout": 0}, "expected 1 or more"),
    ]:
        with pytest.raises(ConfigError, match=says):
            Config.load({"model": model, "train": change})
    text = json.dumps(Config.load({"model": model, "train": {}}).as_dict()["train"])
    assert '"checkpoint": "auto"' in text
