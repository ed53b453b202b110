"""Makes vectors of texts, for the search by likeness. Without an embedder, only words count.

Input: texts. Output: unit vectors. An embedder is any function from a list of texts to an array, or
an `Embedder`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

# Below this likeness two texts have nothing in common, for most models.
FLOOR = 0.25


class EmbedderError(RuntimeError):
    """An embedder failed, or returned no vectors; the message says what to do."""


@runtime_checkable
class Embedder(Protocol):
    """Makes vectors of texts.

    `name` identifies all that decides a vector: chunks that were indexed under another name are
    embedded again. `weight` is that of the likeness of vectors; that of words is 1. Texts that are
    less alike than `floor` are not found by their vectors.
    """

    @property
    def name(self) -> str: ...

    @property
    def weight(self) -> float: ...

    @property
    def floor(self) -> float: ...

    def embed(self, texts: Sequence[str]) -> Floats:
        """Returns vectors, (texts, dimensions); zeros for a text without words."""
        ...


class Called:
    """An embedder of any function from a list of texts to an array of shape (texts, dimensions).

    Its name is the function's, unless one is given.
    """

    def __init__(
        self,
        function: Callable[[list[str]], Any],
        *,
        name: str = "",
        weight: float = 1.0,
        floor: float = FLOOR,
    ) -> None:
        named_object = type(function) if not hasattr(function, "__qualname__") else function
        self.name = name or f"{named_object.__module__}.{named_object.__qualname__}"
        self.weight, self.floor, self._function = weight, floor, function

    def embed(self, texts: Sequence[str]) -> Floats:
        vectors: Floats = self._function(list(texts))
        return vectors


def embedder_for(
    value: Embedder | Callable[[list[str]], Any] | Literal["none"] | None, before: str, index: Path
) -> Embedder | None:
    """Returns what was given as an embedder as one; None for "none".

    Raises ValueError for another text, and for None where the index has vectors of `before`.
    """
    if value is None and before:
        raise ValueError(
            f"the index {index} has vectors of the embedder {before!r}: give it to WorkspaceEngine "
            "again, or delete that folder to index the documents without an embedder"
        )
    if value is None or value == "none":
        return None
    if isinstance(value, str):
        raise ValueError(f'embedder is {value!r}, expected a function, an Embedder or "none"')
    if isinstance(value, Embedder) and not isinstance(value, type):
        return value
    return Called(value)


def vectors_for(embedder: Embedder, texts: Sequence[str], dimensions: int | None = None) -> Floats:
    """Returns unit vectors of texts, float32, (texts, dimensions); zeros stay zeros.

    Raises EmbedderError if the embedder returns anything else than one vector for each text, of
    finite numbers and, if they are known, of these dimensions.
    """
    clean = [text.encode("utf-8", "replace").decode() for text in texts]
    try:
        out = np.array(embedder.embed(clean), dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EmbedderError(f"the embedder {embedder.name} returned no array: {error}") from error
    shape = f"({len(texts)}, {dimensions or 'dimensions'})"
    if out.ndim != 2 or len(out) != len(texts) or not out.shape[1] or not np.isfinite(out).all():
        raise EmbedderError(
            f"the embedder {embedder.name} returned shape {out.shape} for {len(texts)} texts; "
            f"expected finite numbers of shape {shape}"
        )
    if dimensions is not None and out.shape[1] != dimensions:
        raise EmbedderError(
            f"the embedder {embedder.name} now returns {out.shape[1]} dimensions, but the index "
            f"has {dimensions}: it runs another model; give that another name, or delete the index"
        )
    norms = np.linalg.norm(out, axis=1, keepdims=True)
    unit: Floats = np.divide(out, norms, out=np.zeros_like(out), where=norms > 0)
    return unit
