"""Opens a model on a server for a chat: its dialect, its vocabulary, and what it is asked with."""

from __future__ import annotations

import argparse
import atexit
import os
from typing import Any

from mypt_infer.controller import Options, Source
from mypt_infer.endpoint import Endpoint, EndpointSource
from mypt_infer.endpoint.connect import KEY, LLAMA_CPP
from mypt_infer.toolbox import Toolbox
from mypt_spec import Dialect, VocabularyError, dialect
from mypt_spec.dialect import name_in


class Served:
    """The model that `--endpoint` names. Raises ValueError or EndpointError saying what is wrong.

    The dialect is the one that the server says, as mypt-serve does; another `--dialect` contradicts
    it. Other servers do not know the format of their model, so it has to be named.
    """

    def __init__(self, chosen: argparse.Namespace) -> None:
        if not chosen.endpoint.startswith(("http://", "https://")):
            raise ValueError(f"--endpoint {chosen.endpoint}: it begins with http:// or https://")
        self.endpoint = Endpoint.opened(
            chosen.endpoint,
            model=chosen.model,
            key=os.environ.get(KEY),
            seconds=chosen.timeout,
        )
        atexit.register(self.endpoint.close)
        self.speaks: str | None = chosen.speaks
        self.dialect = spoken_by(self.endpoint, chosen.dialect, chosen.vocab)
        most = self.endpoint.context_length
        if most is not None and (chosen.context_length or 0) > most:
            raise ValueError(
                f"--context-length {chosen.context_length}: the model has {most} positions"
            )
        extra: dict[str, Any] = {}
        if chosen.top_k is not None:
            extra["top_k"] = chosen.top_k
        given = {"temperature": chosen.temperature, "top_p": chosen.top_p, "seed": chosen.seed}
        self.sampling = {key: value for key, value in given.items() if value is not None}
        if self.endpoint.owner == LLAMA_CPP:
            self.sampling |= extra
        elif extra:
            self.sampling["extra_body"] = extra

    def source(self, tools: Toolbox, options: Options) -> Source:
        """Returns the source of a chat's conversations."""
        return EndpointSource(
            self.endpoint,
            self.dialect,
            tools=tools.schemas,
            sampling=self.sampling,
            speaks=self.speaks,
        )


def spoken_by(endpoint: Endpoint, wanted: str | None, vocabulary: str | None) -> Dialect:
    """Returns the dialect of a server's model."""
    name = None if wanted in (None, "auto") else wanted
    if name is None and not endpoint.dialect:
        raise ValueError(
            f"{endpoint.url} does not say the format of {endpoint.model}: name it with --dialect"
        )
    try:
        return dialect(name or name_in(endpoint.dialect), vocabulary=vocabulary)
    except VocabularyError as error:
        raise ValueError(f"--vocab {vocabulary}: {error}") from None
    except KeyError as error:
        raise ValueError(f"{endpoint.url}: {error.args[0]}") from None
