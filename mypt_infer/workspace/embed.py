"""Makes vectors of texts, for the search by similarity.

Input: texts. Output: unit vectors. The default needs no model: it hashes words and their trigrams,
and gives the same vectors on every machine. `minilm` knows meaning.
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
    """Makes vectors of texts.

    `name` identifies all that decides a vector: chunks that were indexed under another name are
    embedded again.
    """

    @property
    def name(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    @property
    def weight(self) -> float:
        """Returns the weight of its ranks; that of the full-text search is 1."""
        ...

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Returns unit vectors, float32, (texts, dimensions); zeros for a text without words."""
        ...


def named(name: str) -> Embedder:
    """Returns the embedder with the name that an index says, or "hashing" or "minilm".

    Raises ValueError for an unknown name, and RuntimeError if the embedder's files are missing.
    """
    from mypt_infer.workspace import minilm

    default = HashingEmbedder()
    if name in ("hashing", default.name):
        return default
    if name in ("minilm", minilm.NAME):
        return minilm.MiniLM()
    raise ValueError(f"no embedder {name!r}; there are hashing and minilm")


class HashingEmbedder:
    """Adds up a text's words and their trigrams, each hashed to a dimension and a sign.

    Deterministic, and blind to meaning: texts are similar if they share words or parts of words.
    """

    def __init__(self, dimensions: int = 512) -> None:
        self.dimensions = dimensions
        self.name = f"hashing-{dimensions}-1"
        self.weight = 0.3

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Returns unit vectors, float32, (texts, dimensions); see `Embedder`."""
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
            # The square root, because the tenth time that a word occurs says less than the first.
            weights = np.sqrt(np.fromiter(counts.values(), dtype=np.float32, count=len(counts)))
            signs = np.where(places & 1, np.float32(1), np.float32(-1))
            np.add.at(row, (places >> 1) % self.dimensions, weights * signs)
            norm = np.linalg.norm(row)
            if norm:
                row /= norm
        return out


def folded(text: str) -> str:
    """Returns a text without case and accents."""
    return "".join(
        c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c)
    )


@lru_cache(maxsize=200_000)
def _features(word: str) -> tuple[tuple[int, float], ...]:
    inside = f"<{word}>"
    grams = [inside[i : i + 3] for i in range(len(inside) - 2)] if len(word) > 2 else []
    weight = 0.5 / len(grams) if grams else 0.0
    # Short words are mostly function words, which say little about a text.
    rarity = min(len(word), 8) / 8
    return (
        (zlib.crc32(word.encode("utf-8", "replace")), rarity),
        *((zlib.crc32(b"g" + g.encode("utf-8", "replace")), weight * rarity) for g in grams),
    )
