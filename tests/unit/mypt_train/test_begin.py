"""Processes that share weights begin with those of the first, and hold parts of them alone."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.training import SHAPE, processes

torch = pytest.importorskip("torch")

from mypt_model.llama import random_transformer  # noqa: E402
from mypt_train.training import begin  # noqa: E402
from mypt_train.training.parts import checkpoint  # noqa: E402
from mypt_train.training.parts.config import Config  # noqa: E402
from mypt_train.training.parts.distributed import ALONE  # noqa: E402
from mypt_train.training.parts.optimizer import adamw  # noqa: E402

pytestmark = pytest.mark.numeric

# The folder of the model to begin with, further keys of the shape, ids of the data.
CASES: list[tuple[str, dict[str, Any], int]] = [
    ("", {}, 100),
    ("", {"tie_word_embeddings": False}, 100),
    ("step_000001", {}, 100),  # 97 of them have weights
]
TAGS = {3: [5, 7, 9], 96: [4]}
SHARED = f"""
import sys
from pathlib import Path
import torch
from mypt_train.training import begin
from mypt_train.training.parts import checkpoint
from mypt_train.training.parts.config import Config
from mypt_train.training.parts.distributed import full_tensor, joined, send_weights, spread_out

def refused(*given, **more):
    raise AssertionError("this process makes the whole model")

def same(model, want):
    held = 0
    for name, weight in model.named_parameters():
        assert torch.equal(full_tensor(weight), want[name]), name
        assert weight.requires_grad is False
        held += weight.to_local().numel()
    assert held < 0.6 * sum(weight.numel() for weight in want.values())

def gives(source):
    config = Config.load({{"train": {{}}}})
    want, lacking = begin.begun(config, 100, 64, source)
    begin.name_tags(want, {TAGS})
    read, begin.open_pretrained = begin.open_pretrained, refused
    model, fresh = (want, lacking) if world.first else begin.begun(config, 100, 64, source, hollow=True)
    begin.open_pretrained = read if world.first else refused
    sharing = Config.load({{"train": {{"parallel": "fsdp"}}}})
    reference = begin.frozen(sharing, want, 64, source, world)
    begin.open_pretrained = read
    kept, _ = begin.begun(config, 100, 64, source)
    same(reference, dict(kept.named_parameters()))
    assert fresh == lacking == 3
    values = {{n: w.detach() for n, w in want.named_parameters()}}
    wanted = {{n: w.clone() for n, w in [*values.items(), *want.named_buffers()]}}
    spread_out(model, world, "fsdp", torch.float32)
    send_weights(model, values if world.first else {{}}, world)
    for name, weight in [*model.named_parameters(), *model.named_buffers()]:
        assert torch.equal(full_tensor(weight), wanted.pop(name)), name
    assert not wanted
    assert model.lm_head.weight is model.model.embed_tokens.weight
    held = sum(weight.to_local().numel() for weight in model.parameters())
    assert held < 0.6 * sum(weight.numel() for weight in model.parameters())

out = Path(sys.argv[1])
with joined() as world:
    if (out / "qwen3").exists():
        gives(out / "qwen3")
    for name, more, ids in {CASES}:
        source = out / name if name else None
        config = Config.load({{"model": {SHAPE} | more}})
        want, lacking = begin.begun(config, ids, 64, source)
        kept = {{n: w.detach().clone() for n, w in want.named_parameters()}}
        begin.name_tags(want, {TAGS})
        made, opened = begin.random_transformer, checkpoint.open_model
        model = want
        if not world.first:
            begin.random_transformer = checkpoint.open_model = refused
            model, fresh = begin.begun(config, ids, 64, source, hollow=True)
            assert fresh == lacking
        sharing = Config.load({{"model": {SHAPE} | more, "train": {{"parallel": "fsdp"}}}})
        same(begin.frozen(sharing, want, 64, source, world), kept)
        begin.random_transformer, checkpoint.open_model = made, opened
        values = {{n: w.detach() for n, w in want.named_parameters()}}
        wanted = {{n: w.clone() for n, w in values.items()}}
        spread_out(model, world, "fsdp", torch.float32)
        send_weights(model, values if world.first else {{}}, world)
        held = 0
        for name, weight in model.named_parameters():
            assert torch.equal(full_tensor(weight), wanted[name])
            held += weight.to_local().numel()
        assert held < 0.6 * sum(weight.numel() for weight in wanted.values())
"""


def test_the_weights_are_those_of_one_process(tmp_path: Path) -> None:
    model = random_transformer(Config.load({"model": SHAPE}).shape(97, 64), 5)
    checkpoint.save(tmp_path, 1, model, adamw(model, Config.load({}).train), {}, ALONE, keep=2)
    if find_spec("transformers"):  # the first process reads it for all
        import transformers

        chosen = transformers.Qwen3Config(
            vocab_size=97, head_dim=12, tie_word_embeddings=True, **SHAPE
        )
        transformers.AutoModelForCausalLM.from_config(chosen).save_pretrained(tmp_path / "qwen3")
    for end in processes(
        ["-c", SHARED, str(tmp_path)], 2, modules=["transformers.models.qwen3.modeling_qwen3"]
    ):
        assert end.returncode == 0, end.stderr


def test_another_shape_is_refused_before_there_are_weights(tmp_path: Path) -> None:
    model = random_transformer(Config.load({"model": SHAPE}).shape(97, 64), 5)
    checkpoint.save(tmp_path, 1, model, adamw(model, Config.load({}).train), {}, ALONE, keep=2)
    config = Config.load({"model": SHAPE | {"intermediate_size": 32}})
    with pytest.raises(checkpoint.CheckpointError, match="intermediate_size is 24, the config has"):
        begin.begun(config, 97, 64, tmp_path / "step_000001", hollow=True)


STATE = f"""
import sys
from pathlib import Path
import torch
from safetensors.torch import load_file
from mypt_train.training import begin
from mypt_train.training.parts import checkpoint
from mypt_train.training.parts.config import Config
from mypt_train.training.parts.distributed import full_tensor, joined, spread_out
from mypt_train.training.parts.optimizer import adamw

def refused(*given, **more):
    raise AssertionError("this process reads the whole state")

folder = Path(sys.argv[1])
want = load_file(folder / "optimizer.safetensors")
checkpoint.load_file = refused
with joined() as world:
    config = Config.load({{"model": {SHAPE}}})
    model, _ = begin.begun(config, 97, 64, folder)
    spread_out(model, world, "fsdp", torch.float32)
    optimizer = adamw(model, config.train)
    checkpoint.load_state(folder, model, optimizer)
    held = 0
    for name, weight in model.named_parameters():
        for key, value in optimizer.state[weight].items():
            assert torch.equal(full_tensor(value), want.pop(f"{{key}}:{{name}}"))
            held += value.to_local().numel() if value.dim() else 0
    assert not want
    assert held < 0.6 * 2 * sum(weight.numel() for weight in model.parameters())
"""


def test_the_state_of_a_whole_checkpoint_is_read_tensor_by_tensor(tmp_path: Path) -> None:
    config = Config.load({"model": SHAPE})
    model = random_transformer(config.shape(97, 64), 5)
    optimizer = adamw(model, config.train)
    for weight in model.parameters():
        weight.grad = torch.randn_like(weight)
    optimizer.step()
    checkpoint.save(tmp_path, 1, model, optimizer, {}, ALONE, keep=1)
    for end in processes(["-c", STATE, str(tmp_path / "step_000001")], 2):
        assert end.returncode == 0, end.stderr
