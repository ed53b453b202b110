"""Defines the shape of a model, and the error for a model that cannot be used.

This module exists apart from `llama` so that commands that run no model start without torch.
"""

from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

_LARGEST = 1 << 24  # no model has a larger size


class ModelError(ValueError):
    """A model, or its folder, cannot be used; the message names the file and what is wrong."""


@dataclass(frozen=True)
class LlamaConfig:
    """The shape of a Llama, with the names of `config.json`.

    Raises ModelError when a size is no whole number above 0, or too large, when the heads cannot
    share `hidden_size` evenly, or when the heads cannot share the key heads evenly.
    `max_position_embeddings` is in tokens; None where the folder does not say. The ids of special
    tokens change nothing in the model: they are kept for programs that ask a folder for them.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    tie_word_embeddings: bool = False
    max_position_embeddings: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | None = None

    def __post_init__(self) -> None:
        sizes = [field.name for field in fields(self) if field.default is MISSING]
        for name in sizes:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ModelError(f"{name} is {value!r}, expected a whole number above 0")
            if value > _LARGEST:
                raise ModelError(f"{name} is {value}, expected at most {_LARGEST}")
        if self.hidden_size % self.num_attention_heads or self.head % 2:
            raise ModelError(
                f"hidden_size {self.hidden_size} cannot be shared by {self.num_attention_heads} "
                "heads of even size"
            )
        if self.num_attention_heads % self.num_key_value_heads:
            raise ModelError(
                f"{self.num_attention_heads} heads cannot share {self.num_key_value_heads} key "
                "heads evenly"
            )

    @property
    def head(self) -> int:
        """Returns the size of one head; even, because positions turn its numbers in pairs."""
        return self.hidden_size // self.num_attention_heads

    def as_json(self) -> dict[str, Any]:
        """Returns the content of `config.json` for this shape."""
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_act": "silu",
            "attention_bias": False,
            "mlp_bias": False,
        } | {key: value for key, value in asdict(self).items() if value is not None}


def fits(rows: int, ids: int) -> bool:
    """Returns whether a model with so many rows in its embedding can have so many ids.

    It may have a few more: models are padded to sizes of their own. One id in fifty is more than
    any published model has, and means that the vocabulary is not the model's.
    """
    return ids <= rows <= ids + ids // 50
