"""Makes an Embedder of what a caller passes: an object, a function, a name or an address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mypt_infer.workspace.index.embed import Called, Embedder, HashingEmbedder


def embedder_for(value: Embedder | Callable[[list[str]], Any] | str) -> Embedder | None:
    """Returns an embedder that was given in any of its forms; None for "none"."""
    if isinstance(value, str):
        return embedder_of_name(value)
    if isinstance(value, Embedder) and not isinstance(value, type):
        return value
    return Called(value)


def embedder_of_name(name: str) -> Embedder | None:
    """Returns the embedder with the name that an index or an option says.

    "" and "none" are none, "hashing" is a HashingEmbedder, an address is that of a service. Raises
    ValueError for another name.
    """
    default = HashingEmbedder()
    if name in ("", "none"):
        return None
    if name in ("hashing", default.name):
        return default
    if name.startswith(("http://", "https://")):
        from mypt_infer.workspace.service import Service

        return Service(name)
    raise ValueError(
        f"no embedder {name!r}; expected none, hashing, or the address of a service, "
        "http://localhost:8080/v1/embeddings; a function of Python that an index was made with is "
        "given to WorkspaceEngine again"
    )
