"""Makes an Embedder of what a caller passes: an object, a function, a name or an address.

An address is that of a service on this machine, in the form of OpenAI's /v1/embeddings: llama.cpp,
Ollama, vLLM and others answer in it. Nothing is asked unless its address is given, and texts go
nowhere else: proxies are not used and redirections not followed.
"""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urldefrag, urlsplit, urlunsplit

import numpy as np

from mypt_infer.workspace.index.embed import (
    FLOOR,
    Called,
    Embedder,
    EmbedderError,
    Floats,
)

# Seconds for one answer.
_PATIENCE = 120
_EXCERPT = 200


def embedder_for(value: Embedder | Callable[[list[str]], Any] | str) -> Embedder | None:
    """Returns an embedder that was given in any of its forms, or by the name that an index has.

    "" and "none" are none, an address is that of a service. Raises ValueError for another name.
    """
    if isinstance(value, Embedder) and not isinstance(value, type):
        return value
    if not isinstance(value, str):
        return Called(value)
    if value in ("", "none"):
        return None
    if value.startswith(("http://", "https://")):
        return Service(value)
    raise ValueError(
        f"no embedder {value!r}; expected none, or the address of a service, "
        "http://localhost:8080/v1/embeddings; a function of Python that an index was made with is "
        "given to WorkspaceEngine again"
    )


class Service:
    """An `Embedder` at an address, http://localhost:8080/v1/embeddings.

    A model is named after `#`, for services that hold several: http://localhost:11434/v1#minilm.
    Raises ValueError for what is no address.
    """

    def __init__(self, address: str) -> None:
        place, self.model = urldefrag(address)
        parts = urlsplit(place)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"{address!r} is not an address of a service; expected "
                "http://localhost:8080/v1/embeddings"
            )
        path = parts.path.rstrip("/")
        if not path.endswith("/embeddings"):
            path = (path or "/v1") + "/embeddings"
        self.address = urlunsplit(parts._replace(path=path))
        self.name = self.address + (f"#{self.model}" if self.model else "")
        self.weight, self.floor = 1.0, FLOOR
        self._open = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), _NoRedirection
        ).open

    def embed(self, texts: Sequence[str]) -> Floats:
        """Returns the vectors of texts, (texts, dimensions). Raises EmbedderError."""
        vectors = self._ask([*texts])
        try:
            return np.array(vectors, dtype=np.float32)
        except (TypeError, ValueError):
            raise self._error("its vectors are not lists of numbers of one length") from None

    def _ask(self, texts: list[str]) -> list[Any]:
        body = {"input": texts} | ({"model": self.model} if self.model else {})
        request = urllib.request.Request(
            self.address, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with self._open(request, timeout=_PATIENCE) as answer:
                document = json.load(answer)
        except urllib.error.HTTPError as error:
            detail = " ".join(error.read(_EXCERPT).decode("utf-8", "replace").split())
            raise self._error(f"it answered {error.code} {error.reason}: {detail}") from None
        except urllib.error.URLError as error:
            raise self._error(f"{error.reason}; is the service running?") from None
        except (OSError, http.client.HTTPException) as error:
            raise self._error(f"{error or type(error).__name__}; is the service running?") from None
        except ValueError:
            raise self._error("its answer is not valid JSON") from None
        data = document.get("data") if isinstance(document, dict) else None
        try:
            vectors = {row.get("index", i): row["embedding"] for i, row in enumerate(data or ())}
            return [vectors[i] for i in range(len(texts))]
        except (AttributeError, KeyError, TypeError):
            raise self._error(
                f'expected {{"data": [{{"index", "embedding"}}]}} with one embedding for each of '
                f"{len(texts)} texts, got {json.dumps(document)[:_EXCERPT]}"
            ) from None

    def _error(self, problem: str) -> EmbedderError:
        return EmbedderError(f"the embedder at {self.address}: {problem}")


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """Reports a redirection as an error: texts go to the address that was given alone."""

    def redirect_request(self, *_: Any) -> None:
        return None
