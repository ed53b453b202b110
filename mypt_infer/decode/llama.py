"""A Llama-shaped model with a cache, small and plain: what `mypt-generate` runs, and what chunks are checked against.

Weights are named as in Hugging Face's `LlamaForCausalLM`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


class ModelError(ValueError):
    """A model folder that cannot be used: which file, and what is wrong with it."""


@dataclass(frozen=True)
class LlamaConfig:
    """The shape; names as in `config.json`."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    tie_word_embeddings: bool = False

    @property
    def head(self) -> int:
        return self.hidden_size // self.num_attention_heads


@dataclass
class Cache:
    """Keys and values of every layer, (layers, rows, heads, capacity, head), and how much of each row is filled."""

    keys: Tensor
    values: Tensor
    filled: Tensor


class Llama:
    """`begin` makes a cache, a call reads the next tokens of every row. See `mypt_infer.decode.generate.Model`."""

    def __init__(self, config: LlamaConfig, weights: dict[str, Tensor]) -> None:
        self.config, self.weights = config, weights
        missing = sorted(set(shapes(config)) - set(weights))
        if missing:
            raise ModelError(f"the weights lack {missing[0]} and {len(missing) - 1} others" if len(missing) > 1 else f"the weights lack {missing[0]}")
        for name, shape in shapes(config).items():
            if tuple(weights[name].shape) != shape:
                raise ModelError(f"{name} has shape {tuple(weights[name].shape)}, config.json says {shape}")

    @property
    def vocab_size(self) -> int:
        return self.config.vocab_size

    def begin(self, rows: int, capacity: int) -> Cache:
        """An empty cache for so many rows of at most so many tokens. What fills up chunks goes to a place behind these."""
        c, like = self.config, self.weights["model.embed_tokens.weight"]
        shape = (c.num_hidden_layers, rows, c.num_key_value_heads, capacity + 1, c.head)
        return Cache(like.new_zeros(shape), like.new_zeros(shape), torch.zeros(rows, dtype=torch.int64, device=like.device))

    def __call__(self, ids: Tensor, lengths: Tensor, cache: Cache) -> Tensor:
        """Logits behind the last new token of every row, (rows, vocabulary).

        `ids`: int64, (rows, n), filled up with anything behind the `lengths` (rows,) that are real. A token sees what is in the
        cache and what stands before it in the chunk: the mask is causal, and begins where the cache ends.
        """
        c, w = self.config, self.weights
        rows, n = ids.shape
        at = cache.filled[:, None] + torch.arange(n, device=ids.device)
        capacity = cache.keys.shape[3]
        real = torch.arange(n, device=ids.device) < lengths[:, None]
        place = torch.where(real, at, capacity - 1)
        mask = torch.arange(capacity, device=ids.device)[None, None, :] <= at[:, :, None]
        cos, sin = self._angles(at)
        row = torch.arange(rows, device=ids.device)[:, None]
        x = F.embedding(ids, w["model.embed_tokens.weight"])
        for i in range(c.num_hidden_layers):
            layer = f"model.layers.{i}."
            h = self._norm(x, layer + "input_layernorm.weight")
            q = self._heads(h, layer + "self_attn.q_proj.weight", c.num_attention_heads)
            k = self._heads(h, layer + "self_attn.k_proj.weight", c.num_key_value_heads)
            v = self._heads(h, layer + "self_attn.v_proj.weight", c.num_key_value_heads)
            q, k = _turned(q, cos, sin), _turned(k, cos, sin)
            cache.keys[i][row, :, place] = k.transpose(1, 2)
            cache.values[i][row, :, place] = v.transpose(1, 2)
            groups = c.num_attention_heads // c.num_key_value_heads
            keys, values = (t[i].repeat_interleave(groups, dim=1) for t in (cache.keys, cache.values))
            seen = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask[:, None])
            x = x + seen.transpose(1, 2).reshape(rows, n, -1) @ w[layer + "self_attn.o_proj.weight"].T
            h = self._norm(x, layer + "post_attention_layernorm.weight")
            gate = F.silu(h @ w[layer + "mlp.gate_proj.weight"].T) * (h @ w[layer + "mlp.up_proj.weight"].T)
            x = x + gate @ w[layer + "mlp.down_proj.weight"].T
        cache.filled = cache.filled + lengths
        last = x[torch.arange(rows, device=ids.device), (lengths - 1).clamp(min=0)]
        head = w["model.embed_tokens.weight"] if c.tie_word_embeddings else w["lm_head.weight"]
        return self._norm(last, "model.norm.weight") @ head.T

    def _heads(self, x: Tensor, name: str, count: int) -> Tensor:
        return (x @ self.weights[name].T).view(*x.shape[:2], count, self.config.head).transpose(1, 2)

    def _norm(self, x: Tensor, name: str) -> Tensor:
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.config.rms_norm_eps)
        return (x.float() * scale).to(x.dtype) * self.weights[name]

    def _angles(self, at: Tensor) -> tuple[Tensor, Tensor]:
        half = torch.arange(0, self.config.head, 2, device=at.device).float() / self.config.head
        angles = at[:, None, :, None].float() * self.config.rope_theta**-half
        both = torch.cat([angles, angles], dim=-1)
        like = self.weights["model.embed_tokens.weight"].dtype
        return both.cos().to(like), both.sin().to(like)


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def shapes(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    """The names and shapes of all weights."""
    c, wide = config, config.hidden_size
    narrow = c.num_key_value_heads * c.head
    out: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (c.vocab_size, wide), "model.norm.weight": (wide,)}
    if not c.tie_word_embeddings:
        out["lm_head.weight"] = (c.vocab_size, wide)
    for i in range(c.num_hidden_layers):
        layer = f"model.layers.{i}."
        out |= {layer + f"{name}_layernorm.weight": (wide,) for name in ("input", "post_attention")}
        out |= {layer + f"self_attn.{name}_proj.weight": (narrow if name in "kv" else wide, wide) for name in "qkvo"}
        out |= {layer + f"mlp.{name}_proj.weight": (c.intermediate_size, wide) for name in ("gate", "up")}
        out[layer + "mlp.down_proj.weight"] = (wide, c.intermediate_size)
    return out


def load(folder: str | Path) -> Llama:
    """A model folder: `config.json` and `*.safetensors`. Raises ModelError naming the file and what is wrong."""
    folder = Path(folder)
    try:
        raw: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"cannot read {folder / 'config.json'}: {error.strerror}") from None
    except ValueError as error:
        raise ModelError(f"{folder / 'config.json'} is not JSON: {error}") from None
    if raw.get("model_type", "llama") != "llama" or raw.get("attention_bias") or raw.get("mlp_bias") or raw.get("rope_scaling"):
        raise ModelError(f"{folder / 'config.json'}: only plain Llama models are read (no biases, no scaled positions)")
    raw.setdefault("num_key_value_heads", raw.get("num_attention_heads"))
    for nested in (raw.get("rope_parameters"), raw.get("rope_theta")):
        if isinstance(nested, dict):
            raw["rope_theta"] = nested.get("rope_theta", 10000.0)
    known = {f.name for f in fields(LlamaConfig)}
    try:
        config = LlamaConfig(**{k: v for k, v in raw.items() if k in known})
    except TypeError as error:
        raise ModelError(f"{folder / 'config.json'}: {str(error).partition(') ')[2] or error}") from None
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ModelError(f"{folder} holds no *.safetensors file")
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError:
        raise ModelError("reading weights needs safetensors: pip install 'mypt-tags[infer]'") from None
    weights: dict[str, Tensor] = {}
    for path in files:
        try:
            weights |= load_file(path)
        except (SafetensorError, OSError) as error:
            raise ModelError(f"cannot read {path}: {error}") from None
    return Llama(config, weights)


def random_model(config: LlamaConfig, seed: int = 0, *, scale: float = 0.05) -> Llama:
    """A model of random weights, for tests and measurements."""
    generator = torch.Generator().manual_seed(seed)
    weights = {n: torch.ones(s) if n.endswith("norm.weight") else torch.randn(s, generator=generator) * scale for n, s in shapes(config).items()}
    return Llama(config, weights)
