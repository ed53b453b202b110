"""Makes the optimizer of a run, and says the learning rate of each step."""

import math

import torch

from mypt_model.pretrained import Net
from mypt_train.training.parts import lora
from mypt_train.training.parts.config import TrainConfig


def adamw(model: Net, config: TrainConfig) -> torch.optim.AdamW:
    """Returns AdamW; weights of norms are not decayed, nor rows of tags beside adapters."""
    rows = {weight for name, weight in lora.trained(model).items() if ".lora_" not in name}
    trainable = [weight for weight in model.parameters() if weight.requires_grad]
    wide = [weight for weight in trainable if weight.dim() > 1 and weight not in rows]
    norms = [weight for weight in trainable if weight.dim() == 1 or weight in rows]
    groups = [
        {"params": wide, "weight_decay": config.weight_decay},
        {"params": norms, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.lr, betas=(config.beta1, config.beta2), foreach=True)


def rate(step: int, config: TrainConfig) -> float:
    """Returns the learning rate of a step, counted from 0.

    It warms up, then follows a cosine, is constant, or is constant with a linear end (WSD).
    """
    c = config
    if step < c.warmup:
        return c.lr * (step + 1) / c.warmup
    if c.schedule == "constant":
        return c.lr
    if c.schedule == "wsd":
        tail = max(1, round(c.steps * c.decay))
        remaining = min(1.0, (c.steps - step) / tail)
        return c.lr * (c.final_lr + (1 - c.final_lr) * remaining)
    done = (step - c.warmup) / max(1, c.steps - c.warmup)
    return c.lr * (c.final_lr + (1 - c.final_lr) * (1 + math.cos(math.pi * done)) / 2)
