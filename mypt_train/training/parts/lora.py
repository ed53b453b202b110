"""Trains low-rank adapters (LoRA, arXiv:2106.09685) in place of weights, with the package peft.

Input: a model. Its linear layers but the head get adapters; the rows of the embedding and the head
that belong to new tags are trained as they are, and nothing else is. Checkpoints hold both: the
weights with the adapters merged, which run anywhere, and the folder `adapter/`, which peft loads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from mypt_model.pretrained import Net
from mypt_train.training.config import ConfigError, TrainConfig
from mypt_train.training.distributed import ALONE, World, like, whole

WEIGHTS, CONFIG = "adapter/adapter_model.safetensors", "adapter/adapter_config.json"
_NAME = "default"  # peft's, of the only adapter
_PREFIX = "base_model.model."  # of names in files of peft


def add(model: Net, config: TrainConfig, tags: Sequence[int]) -> None:
    """Adds adapters to a model, in place; of its own weights, only the rows `tags` stay trainable.

    Raises ConfigError if peft is missing.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        raise ConfigError("train.lora_rank needs peft: pip install 'mypt-tags[lora]'") from None
    linear = {n.rpartition(".")[2] for n, m in model.model.named_modules() if _is_linear(m)}
    made = LoraConfig(
        r=config.lora_rank, lora_alpha=config.lora_alpha, target_modules=sorted(linear),
        task_type="CAUSAL_LM",
    )  # fmt: skip
    model.requires_grad_(requires_grad=False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        inject_adapter_in_model(made, model.model)
    for weight in _of_tags(model).values() if tags else ():
        weight.requires_grad_()


@torch.no_grad()
def narrow(model: Net, world: World = ALONE) -> None:
    """Holds frozen weights of linear layers in bfloat16, where that is what they are.

    For products in bfloat16, which would round them before each product. The first process looks
    at the weights for all, so all of them call it.
    """
    frozen = {n: w for n, w in model.named_parameters() if n.endswith(".base_layer.weight")}
    names = [n for n, w in frozen.items() if world.first and torch.equal(w.bfloat16().float(), w)]
    for name in world.told(names):
        frozen[name].data = frozen[name].bfloat16()


def rows_of(model: Net, tags: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
    """Returns the weights of which only the rows `tags` are trained, each with its gradient's mask.

    Masks are 1 for these rows and 0 for others, (ids, 1), sharded as the weights are.
    """
    out = []
    for weight in (w for w in _of_tags(model).values() if w.requires_grad):
        mask = torch.zeros(len(weight), 1, dtype=weight.dtype)
        mask[list(tags)] = 1
        out.append((weight, like(mask, weight)))
    return out


def _is_linear(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear)


def _of_tags(model: Net) -> dict[str, Tensor]:
    """Returns the weights with a row for each id, by name."""
    return {n: w for n, w in model.named_parameters() if n.startswith(("model.embed", "lm_head"))}


def merged(model: Net) -> dict[str, Tensor]:
    """Returns the weights of a model by name, with those of adapters added to them."""
    out: dict[str, Tensor] = {}
    for name, weight in model.named_parameters():
        own, inside, _ = name.partition(".base_layer.")
        if ".lora_" in name:
            continue
        if inside:
            adapted: Any = model.get_submodule(own)
            out[name.replace(".base_layer.", ".")] = (
                weight.detach().float() + adapted.get_delta_weight(_NAME).detach()
                if name.endswith(".weight")
                else weight
            )
        else:
            out[name] = weight
    return out


def trained(model: Net) -> dict[str, Tensor]:
    """Returns what a run with adapters trains, by name; {} for a model without adapters."""
    found: dict[str, Tensor] = {n: w for n, w in model.named_parameters() if w.requires_grad}
    return found if any(".lora_" in name for name in found) else {}


def files(model: Net, facts: Mapping[str, Any]) -> dict[str, bytes]:
    """Returns the files that peft reads, by name; {} for a model without adapters.

    All processes call it.
    """
    weights = {
        _PREFIX + name.replace(f".{_NAME}.", "."): whole(weight).cpu().contiguous()
        for name, weight in trained(model).items()
    }
    if not weights:
        return {}
    inner: Any = model.model
    made = inner.peft_config[_NAME].to_dict()
    made |= {"base_model_name_or_path": facts["base"]["folder"], "inference_mode": True}
    shown = {key: sorted(value) if isinstance(value, set) else value for key, value in made.items()}
    text = json.dumps(shown, indent=1, sort_keys=True, default=str) + "\n"
    return {WEIGHTS: save(weights, metadata={"format": "pt"}), CONFIG: text.encode()}


@torch.no_grad()
def restore(model: Net, folder: Path) -> None:
    """Copies the adapters of a checkpoint into a model that has been given adapters."""
    stored = load((folder / WEIGHTS).read_bytes())
    for name, weight in trained(model).items():
        weight.copy_(stored[_PREFIX + name.replace(f".{_NAME}.", ".")])
