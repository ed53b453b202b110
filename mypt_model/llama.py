"""Defines a Llama as modules, with the parameter names of Hugging Face's `LlamaForCausalLM`.

Input: token ids and their positions. Output: whatever a function makes of the hidden states and the
head, logits or a loss. The caller also supplies the attention: training keeps the episodes of a row
apart, generation reads a KV cache. Everything else is the same code in both, so a model behaves
when it runs as it did when it was trained.
"""

import math
from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mypt_model.shape import LlamaConfig, ModelError

_SCALE = 0.02  # the standard deviation of random weights


class Attend(Protocol):
    """Attention of tokens to those before them, as a forward pass is given it."""

    def __call__(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, window: int | None = None, /
    ) -> Tensor:
        """Maps (layer, queries, keys, values) to (rows, heads, n, head).

        Queries are (rows, heads, n, head), keys and values (rows, key heads, n, head). With a
        `window`, a token attends to that many tokens, itself included.
        """


class RMSNorm(nn.Module):
    """Divides hidden states by their root mean square, in float32, and scales them by weights."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.eps = config.rms_norm_eps
        self.weight = nn.Parameter(torch.ones(config.hidden_size))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return scaled.to(x.dtype) * self.weight


class Attention(nn.Module):
    """Projects hidden states to queries, keys and values, attends, and projects back.

    Queries and keys are rotated by their positions (RoPE). Several query heads share a key head
    where the config says so.
    """

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        wide, narrow = config.hidden_size, config.num_key_value_heads * config.head
        self.head = config.head
        self.q_proj = nn.Linear(wide, wide, bias=False)
        self.k_proj = nn.Linear(wide, narrow, bias=False)
        self.v_proj = nn.Linear(wide, narrow, bias=False)
        self.o_proj = nn.Linear(wide, wide, bias=False)

    def forward(self, x: Tensor, layer: int, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        """Maps hidden states (rows, n, hidden_size) to the same shape.

        `cos` and `sin` are the rotations, (rows, 1, n, head). `attend` is described at `Attend`.
        """
        q, k, v = (self._heads(project(x)) for project in (self.q_proj, self.k_proj, self.v_proj))
        context = attend(layer, _turned(q, cos, sin), _turned(k, cos, sin), v)
        out: Tensor = self.o_proj(context.transpose(1, 2).reshape(x.shape))
        return out

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], -1, self.head).transpose(1, 2)


class Mlp(nn.Module):
    """The gated feed-forward network of a layer (SwiGLU)."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """Adds attention, then the feed-forward network, to the residual stream, each after a norm."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config)
        self.mlp = Mlp(config)

    def forward(self, x: Tensor, layer: int, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        """Maps hidden states (rows, n, hidden_size) to the same shape."""
        x = x + self.self_attn(self.input_layernorm(x), layer, cos, sin, attend)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Trunk(nn.Module):
    """The model without its head; named `model` in the weights, as in Hugging Face's folders."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        # Values to begin with, which nobody reads, would make torch load its compiler: a second.
        shape = config.vocab_size, config.hidden_size
        self.embed_tokens = nn.Embedding(shape[0], shape[1], _weight=torch.empty(shape))
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config)


class Transformer(nn.Module):
    """The whole model.

    `model(ids, at, attend, places, then)` reads `ids` (rows, n) at their positions `at` (rows, n),
    both int64. `places` (int64, (m,)) selects tokens, counted through all rows. The result is that
    of `then(hidden, head)`: `hidden` (m, hidden_size) are the hidden states at `places`, `head`
    (vocab_size, hidden_size) the weights of the head. `then` is called inside the model's forward
    pass because only there sharded weights are whole. With `recompute`, activations within layers
    are not kept for the gradients, but computed again.
    """

    recompute = False

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Trunk(config)
        if not config.tie_word_embeddings:
            self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(
        self,
        ids: Tensor,
        at: Tensor,
        attend: Attend,
        places: Tensor,
        then: Callable[[Tensor, Tensor], Any],
    ) -> Any:
        """Returns `then(hidden, head)`; see the class for shapes."""
        x = self.model.embed_tokens(ids)
        cos, sin = _angles(at, self.config, x.dtype)
        for i, layer in enumerate(self.model.layers):
            if self.recompute and torch.is_grad_enabled():
                x = checkpoint(layer, x, i, cos, sin, attend, use_reentrant=False)
            else:
                x = layer(x, i, cos, sin, attend)
        head = self.model.embed_tokens if self.config.tie_word_embeddings else self.lm_head
        return then(self.model.norm(x.flatten(0, 1)[places]), head.weight)


def _angles(at: Tensor, config: LlamaConfig, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    half = torch.arange(0, config.head, 2, device=at.device).float() / config.head
    angles = at[:, None, :, None].float() * config.rope_theta**-half
    both = torch.cat([angles, angles], dim=-1)
    return both.cos().to(dtype), both.sin().to(dtype)


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return (x * cos + torch.cat([-second, first], dim=-1) * sin).to(x.dtype)


def spread(keys: Tensor, heads: int) -> Tensor:
    """Repeats keys or values, (rows, key heads, n, head), to (rows, `heads`, n, head)."""
    groups = heads // keys.shape[1]
    return keys if groups == 1 else keys.repeat_interleave(groups, dim=1)


def shapes(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    """Returns the names and shapes of all weights, as `read_weights` names them."""
    with torch.device("meta"):
        return {
            name: tuple(weight.shape) for name, weight in Transformer(config).named_parameters()
        }


def _lacking(missing: list[str]) -> str:
    if missing == ["lm_head.weight"]:
        return "if the head is the embedding, set tie_word_embeddings to true in config.json"
    return "copy all *.safetensors of the model and its config.json again"


def of_weights(config: LlamaConfig, weights: dict[str, Tensor]) -> Transformer:
    """Returns a model that uses these very tensors; nothing is copied.

    Raises ModelError naming a weight that is missing or has another shape than `config` says.
    """
    expected_shapes = shapes(config)
    missing = sorted(set(expected_shapes) - set(weights))
    if missing:
        others = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise ModelError(f"the weights lack {missing[0]}{others}; {_lacking(missing)}")
    for name, shape in expected_shapes.items():
        if tuple(weights[name].shape) != shape:
            raise ModelError(
                f"{name} has shape {tuple(weights[name].shape)}, config.json says {shape}"
            )
    with torch.device("meta"):
        out = Transformer(config)
    out.load_state_dict({name: weights[name] for name in expected_shapes}, assign=True)
    return out


def random_transformer(config: LlamaConfig, seed: int = 0) -> Transformer:
    """Returns a model with random weights on the CPU, the same for the same seed.

    Values are normal with standard deviation 0.02. The projections that add to the residual stream
    (`o_proj`, `down_proj`) start smaller, by the square root of twice the number of layers. Weights
    of norms are 1.
    """
    with torch.device("meta"):
        out = Transformer(config)
    out.to_empty(device="cpu")
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in out.named_parameters():
            if name.endswith("norm.weight"):
                weight.fill_(1)
                continue
            inner = name.endswith(("o_proj.weight", "down_proj.weight"))
            spread = _SCALE / math.sqrt(2 * config.num_hidden_layers) if inner else _SCALE
            weight.copy_(torch.randn(weight.shape, generator=generator) * spread)
    return out
