"""Vectors of texts.

The default needs no model: words and their letters, hashed; the same on every machine.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_WORD = re.compile(r"\w+")


class Embedder(Protocol):
    """`name` stands for all that decides a vector: an index made under another name is embedded
    anew.
    """

    @property
    def name(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    @property
    def weight(self) -> float:
        """How much its ranks count beside those of the full-text search, which count 1."""
        ...

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Unit vectors (zero for a text without words), float32, shape (texts, dimensions)."""
        ...


def named(name: str) -> Embedder:
    """The embedder that an index names, or "hashing" or "minilm".

    Raises ValueError for an unknown one, RuntimeError where it lacks files.
    """
    from mypt_infer.workspace import minilm

    default = HashingEmbedder()
    if name in ("hashing", default.name):
        return default
    if name in ("minilm", minilm.NAME):
        return minilm.MiniLM()
    raise ValueError(f"no embedder {name!r}; there are hashing and minilm")


class HashingEmbedder:
    """A bag of words and of their trigrams, each hashed to a place and a sign.

    Deterministic; knows no meaning.
    """

    def __init__(self, dimensions: int = 512) -> None:
        self.dimensions = dimensions
        self.name = f"hashing-{dimensions}-1"
        self.weight = 0.3

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        import numpy as np

        out = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in zip(out, texts, strict=True):
            counts: dict[int, float] = {}
            for word in _WORD.findall(folded(text)):
                for place, weight in _features(word):
                    counts[place] = counts.get(place, 0.0) + weight
            if not counts:
                continue
            places = np.fromiter(counts, dtype=np.uint32, count=len(counts))
            weights = np.sqrt(
                np.fromiter(counts.values(), dtype=np.float32, count=len(counts))
            )  # the tenth time says less
            signs = np.where(places & 1, np.float32(1), np.float32(-1))
            np.add.at(row, (places >> 1) % self.dimensions, weights * signs)
            norm = np.linalg.norm(row)
            if norm:
                row /= norm
        return out


def folded(text: str) -> str:
    """Without case and accents."""
    return "".join(
        c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c)
    )


@lru_cache(maxsize=200_000)
def _features(word: str) -> tuple[tuple[int, float], ...]:
    inside = f"<{word}>"
    grams = [inside[i : i + 3] for i in range(len(inside) - 2)] if len(word) > 2 else []
    weight = 0.5 / len(grams) if grams else 0.0
    rarity = min(len(word), 8) / 8  # short words are mostly the small change of a language
    return (
        (zlib.crc32(word.encode("utf-8", "replace")), rarity),
        *((zlib.crc32(b"g" + g.encode("utf-8", "replace")), weight * rarity) for g in grams),
    )
