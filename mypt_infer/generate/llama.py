"""A Llama with a cache: what `mypt-generate` runs, and what chunks are checked against.

The model is that of `mypt_model`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from mypt_model.folder import newest, read_config, read_weights
from mypt_model.llama import of_weights, shapes, spread
from mypt_model.shape import LlamaConfig, ModelError

__all__ = ["Cache", "Llama", "LlamaConfig", "ModelError", "load", "random_model", "shapes"]


@dataclass
class Cache:
    """Keys and values of every layer, (layers, rows, heads, capacity, head), and how much of each
    row is filled.
    """

    keys: Tensor
    values: Tensor
    filled: Tensor


class Llama:
    """`begin` makes a cache, a call reads the next tokens of every row.

    See `mypt_infer.generate.generate.Model`.
    """

    def __init__(self, config: LlamaConfig, weights: dict[str, Tensor]) -> None:
        self.config, self.net = config, of_weights(config, weights)

    @property
    def vocab_size(self) -> int:
        return self.config.vocab_size

    @property
    def weights(self) -> dict[str, Tensor]:
        """All weights by name."""
        return {name: weight.detach() for name, weight in self.net.named_parameters()}

    def to(self, device: torch.device | str) -> Llama:
        """The same model on another device."""
        return Llama(
            self.config, {name: weight.to(device) for name, weight in self.weights.items()}
        )

    def begin(self, rows: int, capacity: int) -> Cache:
        """An empty cache for so many rows of at most so many tokens.

        What fills up chunks goes to a place behind these.
        """
        c, like = self.config, next(self.net.parameters())
        shape = (c.num_hidden_layers, rows, c.num_key_value_heads, capacity + 1, c.head)
        return Cache(
            like.new_zeros(shape),
            like.new_zeros(shape),
            torch.zeros(rows, dtype=torch.int64, device=like.device),
        )

    @torch.no_grad()
    def __call__(self, ids: Tensor, lengths: Tensor, cache: Cache) -> Tensor:
        """Logits behind the last new token of every row, (rows, vocabulary).

        `ids`: int64, (rows, n), filled up with anything behind the `lengths` (rows,) that are real.
        A token sees what is in the cache and what stands before it in the chunk: the mask is
        causal, and begins where the cache ends.
        """
        rows, n = ids.shape
        at = cache.filled[:, None] + torch.arange(n, device=ids.device)
        capacity = cache.keys.shape[3]
        real = torch.arange(n, device=ids.device) < lengths[:, None]
        place = torch.where(real, at, capacity - 1)
        mask = torch.arange(capacity, device=ids.device)[None, None, :] <= at[:, :, None]
        row = torch.arange(rows, device=ids.device)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            cache.keys[layer][row[:, None], :, place] = k.transpose(1, 2)
            cache.values[layer][row[:, None], :, place] = v.transpose(1, 2)
            keys, values = (spread(t[layer], q.shape[1]) for t in (cache.keys, cache.values))
            return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask[:, None])

        last = row * n + (lengths - 1).clamp(min=0)
        logits: Tensor = self.net(ids, at, attend, last, F.linear)
        cache.filled = cache.filled + lengths
        return logits

    def rewind(self, cache: Cache, length: int) -> None:
        """Forget all but the first `length` tokens of every row: what stands behind them is written
        over.
        """
        cache.filled = cache.filled.clamp(max=length)


def load(folder: str | Path) -> Llama:
    """A model folder (`config.json` and `*.safetensors`), or the output of a training run.

    Raises ModelError naming the file and what is wrong.
    """
    folder = newest(folder)
    return Llama(read_config(folder), read_weights(folder))


def random_model(config: LlamaConfig, seed: int = 0, *, scale: float = 0.05) -> Llama:
    """A model of random weights, for tests and measurements."""
    generator = torch.Generator().manual_seed(seed)
    weights = {
        n: torch.ones(s)
        if n.endswith("norm.weight")
        else torch.randn(s, generator=generator) * scale
        for n, s in shapes(config).items()
    }
    return Llama(config, weights)
