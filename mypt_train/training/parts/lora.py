"""Trains low-rank adapters (LoRA, arXiv:2106.09685) in place of weights, with the package peft.

Input: a model. Its linear layers but the head get adapters; the rows of the embedding and the head
that belong to new tags are trained, and nothing else is. These rows are weights of their own, which
take the place of those of the whole weight where that is read; so only they have gradients and
moments. Checkpoints hold both: the weights with adapters and rows merged, which run anywhere, and
the folder `adapter/`, which peft loads.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.nn.utils.parametrize import register_parametrization

from mypt_model.pretrained import Net
from mypt_train.training.parts.config import ConfigError, TrainConfig
from mypt_train.training.parts.distributed import ALONE, World, full_tensor, piece

WEIGHTS, CONFIG = "adapter/adapter_model.safetensors", "adapter/adapter_config.json"
_NAME = "default"  # peft's, of the only adapter
_BY_ID = ("model.embed_tokens", "lm_head")  # have a row for each id
_PREFIX = "base_model.model."  # of names in files of peft
_ORIGINAL, _ROWS = ".parametrizations.weight.original", ".parametrizations.weight.0.rows"
_DELTA = ".token_adapter.trainable_tokens_delta"  # what peft calls such rows


class _Tags(nn.Module):
    """Puts rows that are trained in the place of those that a weight has for some ids."""

    ids: Tensor

    def __init__(self, weight: Tensor, ids: Sequence[int]) -> None:
        super().__init__()
        self.register_buffer("ids", torch.tensor(ids), persistent=False)
        self.rows = nn.Parameter(weight.detach()[self.ids])

    def forward(self, weight: Tensor) -> Tensor:
        return weight.index_copy(0, self.ids, self.rows)


def add(model: Net, config: TrainConfig, tags: Sequence[int]) -> None:
    """Adds adapters to a model, in place; of its own weights, only the rows `tags` are trained.

    Raises ConfigError if peft is missing.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        raise ConfigError("train.lora_rank needs peft: pip install 'mypt-tags[lora]'") from None
    parts = model.model.named_modules()
    linear = {name.rpartition(".")[2] for name, part in parts if isinstance(part, nn.Linear)}
    peft_config = LoraConfig(
        r=config.lora_rank, lora_alpha=config.lora_alpha, target_modules=sorted(linear),
        task_type="CAUSAL_LM",
    )  # fmt: skip
    model.requires_grad_(requires_grad=False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        inject_adapter_in_model(peft_config, model.model)
    if tags:
        by_id: list[Any] = [part for name, part in model.named_modules() if name in _BY_ID]
        rows = {module.weight: _Tags(module.weight, tags) for module in by_id}  # one if tied
        for module in by_id:
            register_parametrization(module, "weight", rows[module.weight])
        layers = ("embed_tokens", "lm_head")[: len(rows)]
        peft_config.trainable_token_indices = {name: list(tags) for name in layers}


@torch.no_grad()
def narrow(model: Net, world: World = ALONE) -> None:
    """Holds frozen weights of linear layers in bfloat16, where that is what they are.

    For products in bfloat16, which would round them before each product. The first process looks
    at the weights for all, so all of them call it.
    """
    frozen = {n: w for n, w in model.named_parameters() if n.endswith(".base_layer.weight")}
    names = [n for n, w in frozen.items() if world.first and torch.equal(w.bfloat16().float(), w)]
    for name in world.broadcast(names):
        frozen[name].data = frozen[name].bfloat16()


def merged(model: Net) -> dict[str, Tensor]:
    """Returns the weights of a model by name, with adapters and rows of tags in them.

    All processes call it.
    """
    out: dict[str, Tensor] = {}
    for name, weight in model.named_parameters():
        if ".lora_" in name or name.endswith(_ROWS):
            continue
        value: Tensor = weight
        if name.endswith(_ORIGINAL):
            tags: Any = model.get_submodule(name.replace(".original", ".0"))
            value = piece(
                full_tensor(weight).index_copy(0, tags.ids, full_tensor(tags.rows)), weight
            )
        elif name.endswith(".base_layer.weight"):
            adapted: Any = model.get_submodule(name.removesuffix(".base_layer.weight"))
            value = weight.detach().float() + adapted.get_delta_weight(_NAME).detach()
        out[name.replace(_ORIGINAL, ".weight").replace(".base_layer.", ".")] = value
    return out


def trained(model: Net) -> dict[str, Tensor]:
    """Returns what a run with adapters trains, by its name for peft; {} for one without them."""
    weights: dict[str, Tensor] = {
        _PREFIX + n.replace(f".{_NAME}.", ".").replace(_ROWS, _DELTA): w
        for n, w in model.named_parameters()
        if w.requires_grad
    }
    return weights if any(".lora_" in name for name in weights) else {}


def files(model: Net, facts: Mapping[str, Any]) -> dict[str, bytes]:
    """Returns the files that peft reads, by name; {} for a model without adapters.

    All processes call it.
    """
    weights = {name: full_tensor(w).cpu().contiguous() for name, w in trained(model).items()}
    if not weights:
        return {}
    inner: Any = model.model
    data = inner.peft_config[_NAME].to_dict()
    data |= {"base_model_name_or_path": facts["base"]["folder"], "inference_mode": True}
    plain = {key: sorted(value) if isinstance(value, set) else value for key, value in data.items()}
    text = json.dumps(plain, indent=1, sort_keys=True, default=str) + "\n"
    return {WEIGHTS: save(weights, metadata={"format": "pt"}), CONFIG: text.encode()}


@torch.no_grad()
def restore(model: Net, folder: Path) -> None:
    """Copies the adapters of a checkpoint to those of a model; raises ConfigError if some lack."""
    stored = load((folder / WEIGHTS).read_bytes())
    if lost := trained(model).keys() - stored.keys():
        raise ConfigError(f"{folder}: lacks {min(lost)}; begin a new run with --init-from {folder}")
    for name, weight in trained(model).items():
        weight.copy_(stored[name])
