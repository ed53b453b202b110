"""Runs a model of `mypt_model` with a KV cache: our Llama, or one of transformers.

Input: a folder of a model, and ids in chunks. Output: logits after each chunk.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from mypt_model.folder import newest
from mypt_model.llama import shapes, spread
from mypt_model.pretrained import Net, open_model
from mypt_model.shape import LlamaConfig, ModelError

__all__ = ["Cache", "Llama", "LlamaConfig", "ModelError", "load", "shapes"]


@dataclass
class Cache:
    """The KV cache: keys and values, (layers, rows, heads, capacity, head).

    `filled`, int64, (rows,), is the number of tokens in each row.
    """

    keys: Tensor
    values: Tensor
    filled: Tensor


class Llama:
    """A Model (see `mypt_infer.generate.loop.Model`) that runs a network of `mypt_model`."""

    def __init__(self, net: Net) -> None:
        self.config, self.net = net.config, net

    @property
    def vocab_size(self) -> int:
        return self.config.vocab_size

    @property
    def weights(self) -> dict[str, Tensor]:
        """Returns all weights by name."""
        return {name: weight.detach() for name, weight in self.net.named_parameters()}

    def to(self, device: torch.device | str) -> Llama:
        """Moves the model to a device; returns it."""
        self.net.to(device)
        return self

    def begin(self, rows: int, capacity: int) -> Cache:
        """Returns an empty KV cache for `rows` rows of at most `capacity` tokens.

        It has one place more, which takes the padding of chunks.
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
        """Returns logits after the last new token of each row, (rows, vocabulary).

        `ids`: int64, (rows, n), with any padding after the `lengths` (rows,) real ones. A token
        attends to the cache and to the tokens before it in the chunk: the mask is causal, and
        starts where the cache ends.
        """
        rows, n = ids.shape
        at = cache.filled[:, None] + torch.arange(n, device=ids.device)
        capacity = cache.keys.shape[3]
        real = torch.arange(n, device=ids.device) < lengths[:, None]
        place = torch.where(real, at, capacity - 1)
        before = at[:, :, None] - torch.arange(capacity, device=ids.device)  # how far each place is
        masks: dict[int | None, Tensor] = {None: before >= 0}
        row = torch.arange(rows, device=ids.device)

        def attend(
            layer: int, q: Tensor, k: Tensor, v: Tensor, window: int | None = None
        ) -> Tensor:
            if window not in masks:
                masks[window] = masks[None] & (before < (window or 0))
            cache.keys[layer][row[:, None], :, place] = k.transpose(1, 2)
            cache.values[layer][row[:, None], :, place] = v.transpose(1, 2)
            keys, values, shared = cache.keys[layer], cache.values[layer], q.device.type == "cpu"
            if not shared:  # there, the fast kernels with a mask have no shared heads
                keys, values = spread(keys, q.shape[1]), spread(values, q.shape[1])
            return F.scaled_dot_product_attention(
                q, keys, values, attn_mask=masks[window][:, None], enable_gqa=shared
            )

        last = row * n + (lengths - 1).clamp(min=0)
        logits: Tensor = self.net(ids, at, attend, last, F.linear)
        cache.filled = cache.filled + lengths
        return logits

    def rewind(self, cache: Cache, length: int) -> None:
        """Forgets all but the first `length` tokens of each row.

        The keys and values of later tokens are overwritten by the next ones."""
        cache.filled = cache.filled.clamp(max=length)


def load(folder: str | Path) -> Llama:
    """Returns the model in a folder, or the latest of a training run.

    The folder has `config.json` and `*.safetensors`. Raises ModelError naming the file and what is
    wrong.
    """
    return Llama(open_model(newest(folder)))
