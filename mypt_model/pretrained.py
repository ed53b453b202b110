"""Runs models of other architectures with their own code, from transformers, called as ours.

A `Pretrained` is called as `mypt_model.llama.Transformer` is: the caller supplies the attention, so
training keeps the episodes of a row apart and generation reads its KV cache in the same way for
every architecture. transformers lets a model call an attention by name; the one registered here
calls the function that came with the forward pass.

Theory of operation. That only works where attention, to all tokens before or to a window of them,
is all that tokens share, and where logits are the product of hidden states and head. Some
architectures have more (attention to sinks, capped logits, scaled logits, states that recur).
`open_pretrained` therefore compares the logits with those that transformers computes by itself, and
refuses a model whose logits differ. For this comparison, windows are narrower than the text.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mypt_model.folder import check_layers, is_plain, read_config, read_weights
from mypt_model.llama import Attend, Transformer, of_weights, spread
from mypt_model.shape import ModelError

_NAME, _WINDOW = "mypt", "sliding_attention"  # our attention, and a kind of layer
_PROBE, _NARROW = 12, 4  # tokens of a text, and of a window, that show whether logits are equal
_UNREADABLE = (
    OSError, ValueError, TypeError, KeyError, RuntimeError, ArithmeticError, AttributeError,
)  # fmt: skip
_NEEDS = "this model runs by transformers: pip install 'mypt-tags[pretrained]'"


class PretrainedConfig:
    """The shape of a model of transformers, with the names of `config.json`; `raw` is all of it."""

    def __init__(self, config: Any) -> None:
        self.vocab_size: int = config.vocab_size
        self.hidden_size: int = config.hidden_size
        self.num_hidden_layers: int = config.num_hidden_layers
        heads = self.num_attention_heads = int(config.num_attention_heads)
        self.num_key_value_heads: int = getattr(config, "num_key_value_heads", None) or heads
        self.head: int = getattr(config, "head_dim", None) or config.hidden_size // heads
        self.tie_word_embeddings = bool(config.tie_word_embeddings)
        longest = getattr(config, "max_position_embeddings", None)
        self.max_position_embeddings: int | None = longest
        self.raw: dict[str, Any] = json.loads(config.to_json_string(use_diff=False))
        self.raw.pop("transformers_version", None)
        self.raw.pop("_name_or_path", None)  # where it was read: not a fact of the model

    def as_json(self) -> dict[str, Any]:
        """Returns the content of `config.json`."""
        return dict(self.raw)


class Pretrained(nn.Module):
    """A causal language model of transformers; `Transformer` says how it is called.

    Its weights have the names that they have in a folder of Hugging Face.
    """

    def __init__(self, inner: Any) -> None:
        super().__init__()
        inner.set_attn_implementation(_NAME)
        self.config = PretrainedConfig(inner.config)
        self.model, self.lm_head = inner.model, inner.lm_head
        self._recompute = False
        self._inner = (inner,)  # not a module of its own: it holds the two above

    @property
    def inner(self) -> Any:
        """Returns the model of transformers, which has the same weights."""
        return self._inner[0]

    @property
    def recompute(self) -> bool:
        """Returns whether activations within layers are computed again for the gradients."""
        return self._recompute

    @recompute.setter
    def recompute(self, on: bool) -> None:
        if on and not self._recompute:
            for layer in self.model.layers:
                layer.forward = partial(_again, layer.forward)
        self._recompute = on

    def forward(
        self,
        ids: Tensor,
        at: Tensor,
        attend: Attend,
        places: Tensor,
        then: Callable[[Tensor, Tensor], Any],
    ) -> Any:
        """Returns `then(hidden, head)`; see `Transformer` for shapes."""
        output = self.model(input_ids=ids, position_ids=at, use_cache=False, attend=attend)
        hidden = output.last_hidden_state
        return then(hidden.flatten(0, 1)[places], self.lm_head.weight)

    @torch.no_grad()
    def grown(self, vocab_size: int) -> Pretrained:
        """Returns the model with more ids, on the same weights.

        The rows of new ids in the embedding and in the head are the mean of the rows before them. A
        head that is tied to the embedding stays tied.
        """
        inner, before = self.inner, self.config.vocab_size
        if vocab_size <= before:
            return self
        inner.resize_token_embeddings(vocab_size, mean_resizing=False)
        for part in (inner.get_input_embeddings(), inner.get_output_embeddings()):
            part.weight[before:] = part.weight[:before].mean(dim=0)
        return Pretrained(inner)

    def with_weights(self, weights: dict[str, Tensor]) -> Pretrained:
        """Returns another model of this shape, on the CPU, with copies of these weights.

        Raises ModelError naming a weight that is missing.
        """
        _register()
        from transformers import AutoConfig

        dtype = next(iter(weights.values())).dtype
        out = Pretrained(_built(AutoConfig.for_model(**self.config.raw), dtype))
        with torch.no_grad():
            for name, weight in out.named_parameters():
                if name not in weights:
                    raise ModelError(f"the weights lack {name}")
                weight.copy_(weights[name])
        return out.eval()

    def __deepcopy__(self, memo: dict[int, Any]) -> Pretrained:
        return Pretrained(copy.deepcopy(self.inner, memo))


Net = Transformer | Pretrained


def open_model(folder: Path) -> Net:
    """Returns the model in a folder, on the CPU: ours if it is a plain Llama, else a `Pretrained`.

    Raises ModelError, naming the file and what is wrong.
    """
    check_layers(folder)
    if is_plain(folder):
        return of_weights(read_config(folder), read_weights(folder))
    return open_pretrained(folder)


def rebuilt(net: Net, weights: dict[str, Tensor]) -> Net:
    """Returns a model of the shape of `net` with these weights, on the CPU."""
    if isinstance(net, Pretrained):
        return net.with_weights(weights)
    return of_weights(net.config, weights)


def open_pretrained(folder: Path, dtype: torch.dtype | None = None) -> Pretrained:
    """Returns the model in a folder of Hugging Face, on the CPU, by default in its weights' dtype.

    One that is widened later keeps constants that were rounded, such as the scale of Gemma's
    embeddings. No code of the folder is run. Raises ModelError, naming the folder and the fault, if
    transformers is missing or does not know the architecture, for weights that do not fit
    `config.json`, and for logits that depend on more than attention that the caller supplies.
    """
    _register()
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        result: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype or "auto", local_files_only=True, use_safetensors=True,
            output_loading_info=True,
        )  # fmt: skip
        inner, info = result
    except (*_UNREADABLE, SafetensorError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ModelError(f"{folder}: transformers cannot read this model: {reason}") from None
    try:
        if missing := sorted(info["missing_keys"]):
            raise ModelError(f"the weights lack {missing[0]} ({len(missing)} are missing)")
        _check_shape(inner.config)
        out = _wrapped(inner)
        _check_logits(out)
    except ModelError as error:
        raise ModelError(f"{folder}: {error}") from None
    return out


def open_hollow(folder: Path, vocab_size: int) -> Pretrained:
    """Returns a model of the shape of that in a folder, with at least `vocab_size` ids, in float32.

    Its weights have memory that nobody has written, and that the system does not give before. For
    a process that gets pieces of them from another one. Raises ModelError.
    """
    _register()
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        with torch.device("meta"):
            out = _wrapped(_built(config, torch.float32)).grown(vocab_size)
    except _UNREADABLE as error:
        reason = str(error).strip().partition("\n")[0]
        raise ModelError(f"{folder}: transformers cannot read this model: {reason}") from None
    out.inner.to_empty(device="cpu")
    out.inner.tie_weights()
    return out


def _built(config: Any, dtype: torch.dtype) -> Any:
    from transformers import AutoModelForCausalLM

    build: Any = AutoModelForCausalLM.from_config
    return build(config, dtype=dtype)


def _wrapped(inner: Any) -> Pretrained:
    inner.eval()
    kind = inner.config.model_type
    if not isinstance(getattr(inner, "lm_head", None), nn.Linear) or not hasattr(inner, "model"):
        raise ModelError(f"model_type {kind!r} has no `model` and `lm_head`, which are needed")
    if inner.lm_head.bias is not None:
        raise ModelError(f"model_type {kind!r} has a head with a bias, which is not supported")
    return Pretrained(inner)


def _check_shape(config: Any) -> None:
    """Raises ModelError for layers that see neither the whole context nor a window of it.

    So it does for caps, which change small logits, as those of random weights, by too little to
    show when logits are compared.
    """
    for cap in ("attn_logit_softcapping", "final_logit_softcapping"):
        if getattr(config, cap, None):
            raise ModelError(f"has {cap}; models that cap their logits are not supported")
    kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention", _WINDOW}
    if kinds:
        raise ModelError(
            f"has layers of {', '.join(sorted(kinds))}; only models whose layers all see the whole "
            "context, or a window of it, are supported"
        )


@contextmanager
def _narrow_windows(inner: Any) -> Iterator[None]:
    parts = [p for p in (inner.config, *inner.modules()) if getattr(p, "sliding_window", None)]
    windows = [part.sliding_window for part in parts]
    for part in parts:
        part.sliding_window = _NARROW
    try:
        yield
    finally:
        for part, window in zip(parts, windows, strict=True):
            part.sliding_window = window


@torch.no_grad()
def _check_logits(model: Pretrained) -> None:
    ids, at = torch.arange(_PROBE)[None] * 7919 % model.config.vocab_size, torch.arange(_PROBE)
    inner = model.inner
    with _narrow_windows(inner):
        logits = model(ids, at[None], _causal, at, nn.functional.linear)
        inner.set_attn_implementation("eager")
        try:
            theirs = inner(input_ids=ids, use_cache=False).logits[0]
        finally:
            inner.set_attn_implementation(_NAME)
    deviation = float((logits - theirs).abs().max() / theirs.std().clamp(min=1e-6))
    if not deviation < (1e-3 if logits.dtype == torch.float32 else 0.3):
        raise ModelError(
            f"model_type {model.config.raw.get('model_type')!r} computes its logits in a way that "
            f"is not supported (they differ by {deviation:.2g} standard deviations)"
        )


def causal_mask(width: int, window: int | None, device: torch.device | None = None) -> Tensor:
    """Returns whether each token sees another, at most `window` of them: bool, (width, width)."""
    mask = torch.ones(width, width, dtype=torch.bool, device=device).tril()
    return mask if window is None else mask.triu(1 - window)


def _causal(_: int, q: Tensor, k: Tensor, v: Tensor, window: int | None = None) -> Tensor:
    k, v, mask = spread(k, q.shape[1]), spread(v, q.shape[1]), causal_mask(q.shape[2], window)
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def _again(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Runs a layer whose activations are computed again, where there are to be gradients."""
    if torch.is_grad_enabled():
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)
    return forward(*args, **kwargs)


def _register() -> None:
    try:
        from transformers import AttentionInterface
    except ImportError:
        raise ModelError(_NEEDS) from None
    # Compiled, it would be compiled anew for each layer, whose number it reads.
    disable: Any = torch.compiler.disable
    AttentionInterface.register(_NAME, disable(_attention, recursive=False))


def _attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *,
    attend: Attend, scaling: float | None = None, sliding_window: int | None = None, **kwargs: Any,
) -> tuple[Tensor, None]:  # fmt: skip
    """Calls the attention of the forward pass, as transformers calls one.

    Queries are (rows, heads, n, head); the result is (rows, n, heads, head).
    """
    usual = query.shape[-1] ** -0.5
    if scaling is not None and not math.isclose(scaling, usual):
        query = query * (scaling / usual)
    layer: Any = module.layer_idx
    out = attend(layer, query, key, value, sliding_window or None)
    return out.transpose(1, 2).contiguous(), None
