"""Computes attention that keeps the episodes of a row apart, by three backends with one result.

Input: queries, keys and values of rows, and the lengths of the episodes in each row. Output: what
each token sees of its own episode. No episode sees another one, to the bit (invariant 9).

- `slices`: each episode alone, causal; nothing is computed across episodes. Fastest on a CPU.
- `mask`: scaled dot-product attention with a dense block mask, the plain definition.
- `flex`: FlexAttention, which skips blocks between episodes on a GPU; on heads too small for it, as
  `mask`.

The layers around it may run as torch.compile makes them. They are alike, so the code for the first
serves all, and any number of tokens. FlexAttention is part of that code. The others are not: they
read the lengths of episodes, and would be compiled for each batch anew.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mypt_model.llama import Attend, Transformer, spread
from mypt_model.pretrained import Net, causal_mask
from mypt_train.training.parts.config import ConfigError

BACKENDS = ("slices", "mask", "flex")
_LEAST_HEAD = 16  # of FlexAttention's kernels for a GPU


def attend(
    backend: str, lengths: Sequence[Sequence[int]], width: int, device: torch.device
) -> Attend:
    """Returns the attention for rows of `width` tokens.

    `lengths` are the lengths of the episodes of each row, in order; the rest of a row is padding,
    for which the output has no meaning. Raises ValueError for a backend not in BACKENDS.
    """
    if backend == "slices":
        return _slices(lengths, width)
    owner = owners(lengths, width).to(device)
    if backend == "mask":
        masks = cache(partial(block_mask, owner))
        return lambda _, q, k, v, window=None: F.scaled_dot_product_attention(
            q, spread(k, q.shape[1]), spread(v, q.shape[1]), attn_mask=masks(window)
        )
    if backend == "flex":
        return _flex(owner)
    raise ValueError(f"attention is {backend!r}, expected auto or one of {', '.join(BACKENDS)}")


def owners(lengths: Sequence[Sequence[int]], width: int) -> Tensor:
    """Returns the number of each token's episode within its row: int64, (rows, width).

    Padding counts as one more episode.
    """
    out = torch.empty(len(lengths), width, dtype=torch.int64)
    for row, episodes in zip(out, lengths, strict=True):
        sizes = torch.tensor([*episodes, width - sum(episodes)])
        row.copy_(torch.repeat_interleave(torch.arange(len(sizes)), sizes))
    return out


def block_mask(owner: Tensor, window: int | None = None) -> Tensor:
    """Returns whether each token sees another: bool, (rows, 1, width, width)."""
    causal = causal_mask(owner.shape[1], window, owner.device)
    return ((owner[:, :, None] == owner[:, None, :]) & causal)[:, None]


def _slices(lengths: Sequence[Sequence[int]], width: int) -> Attend:
    def run(_: int, q: Tensor, k: Tensor, v: Tensor, window: int | None = None) -> Tensor:
        k, v = spread(k, q.shape[1]), spread(v, q.shape[1])
        rows = []
        for row, episodes in enumerate(lengths):
            sizes = [*episodes, width - sum(episodes)]
            *parts, padding = zip(
                *(torch.split(t[row : row + 1], sizes, dim=2) for t in (q, k, v)), strict=True
            )
            out = [_episode(a, b, c, window) for a, b, c in parts]
            rows.append(torch.cat([*out, padding[2]], dim=2))  # padding: anything of its shape
        return torch.cat(rows) if len(rows) > 1 else rows[0]

    return run


def _episode(q: Tensor, k: Tensor, v: Tensor, window: int | None) -> Tensor:
    """Returns what the tokens of one episode see of it."""
    if window is None or q.shape[2] <= window:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    mask = causal_mask(q.shape[2], window, q.device)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def _flex(owner: Tensor) -> Attend:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    rows, width = owner.shape

    @cache
    def mask(window: int | None) -> Any:
        size = window or width

        def sees(b: Tensor, h: Tensor, at: Tensor, other: Tensor) -> Tensor:
            same: Tensor = owner[b, at] == owner[b, other]
            return same & (at >= other) & (at - other < size)

        return create_block_mask(sees, rows, None, width, width, device=device)

    device = owner.device.type
    kernel, whole = _kernel(device), mask(None)

    def run(_: int, q: Tensor, k: Tensor, v: Tensor, window: int | None = None) -> Tensor:
        if device == "cuda" and q.shape[-1] < _LEAST_HEAD:
            k, v = spread(k, q.shape[1]), spread(v, q.shape[1])
            return F.scaled_dot_product_attention(q, k, v, attn_mask=block_mask(owner, window))
        attention: Any = flex_attention if torch.compiler.is_compiling() else kernel
        blocks = whole if window is None else mask(window)
        out: Tensor = attention(q, k, v, block_mask=blocks, enable_gqa=k.shape[1] != q.shape[1])
        return out

    return run


@cache
def _kernel(device: str) -> Any:
    """Returns FlexAttention, compiled for a GPU.

    On a CPU, only the forward pass exists, uncompiled, for comparison.
    """
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=True) if device == "cuda" else flex_attention


def compile_layers(model: Net, device: torch.device) -> None:
    """Lets the layers of a model run compiled, from their first call on.

    Raises ConfigError where torch cannot compile for `device`. Only that one is tried: for a CPU,
    the first thing that torch compiles can take most of a minute.
    """
    try:
        torch.compile(torch.neg)(torch.ones(2, device=device))
    except Exception as error:  # of many kinds: no compiler, no Triton, an unknown platform
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(
            f"train.compile: torch cannot compile here: {reason}; install a C++ compiler such as "
            "g++, or leave it out"
        ) from None
    for layer in model.model.layers:
        compiled = torch.compile(layer.forward, dynamic=True)
        layer.forward = _unnumbered(compiled) if isinstance(model, Transformer) else compiled


def _unnumbered(forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Returns a layer without its number, which no attention here reads: it would be a constant."""
    return lambda x, _, *rest: forward(x, 0, *rest)


def uncompiled(attend: Attend, backend: str) -> Attend:
    """Returns an attention, of a backend, as compiled layers may call it."""
    disable: Any = torch.compiler.disable
    out: Attend = attend if backend == "flex" else disable(attend)
    return out
