"""A server on this machine with a tiny model, for tests and measurements."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import uvicorn

import mypt_spec
from mypt.serve import settings
from mypt_infer.generate.llama import Cache, Llama, LlamaConfig
from mypt_infer.serve.app import app
from mypt_infer.serve.service import Limits, Service
from tests.support.build import function, system, user
from tests.support.tiny_models import random_model

NAME = "tiny"
HI = [system(), user()]
QUERY = {"query": {"enum": ["bees", "wasps"]}, "top_k": {"type": "integer", "minimum": 1, "maximum": 5}}  # fmt: skip
FIND = function("workspace_search", QUERY, required=[*QUERY], additionalProperties=False)
LIST = function("list_docs")


def ask(client: Any, **more: Any) -> Any:
    """Asks for an answer to HI, unless other messages are named."""
    return client.chat.completions.create(**({"model": NAME, "messages": HI} | more))


def until(reached: Callable[[], bool], seconds: float = 60.0) -> None:
    """Waits until something is so; `seconds` are what only a hang takes."""
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.005)


class Fond(Llama):
    """A random model that likes tags and short answers; `pause` seconds pass at each step."""

    def __init__(self, model: Llama, fond: Sequence[int], pause: float = 0.0) -> None:
        super().__init__(model.net)
        self.fond, self.pause, self.calls = list(fond), pause, 0

    def __call__(self, ids: torch.Tensor, lengths: torch.Tensor, cache: Cache) -> torch.Tensor:
        self.calls += 1
        if self.pause:
            time.sleep(self.pause)
        out = super().__call__(ids, lengths, cache)
        out[:, self.fond] += 8
        return out


def service(
    dialect: str | mypt_spec.Dialect = "mypt",
    *,
    pause: float = 0.0,
    fond: bool = True,
    seed: int = 0,
    positions: int | None = None,
    **limits: Any,
) -> Service:
    """Returns a service of a tiny random model in a dialect."""
    d = mypt_spec.dialect(dialect) if isinstance(dialect, str) else dialect
    size = d.tokenizer.vocab_size
    shape = {"tie_word_embeddings": True, "max_position_embeddings": positions}
    config = LlamaConfig(size, 8, 16, 1, 2, 1, **shape)
    tags = list(d.table.special.values()) if fond else []
    model = Fond(random_model(config, seed), tags, pause)
    return Service(model, d, name=NAME, tools=["workspace.search"], limits=Limits(**limits))


class Running:
    """A server that runs: where it is, and how to end it."""

    def __init__(self, made: Service, server: uvicorn.Server, thread: threading.Thread) -> None:
        self.service, self.server, self.thread = made, server, thread
        port = server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    def client(self, **options: Any) -> Any:
        """Returns a client of OpenAI's library."""
        import openai

        # To load certificates, which nothing here needs, takes longer than most tests.
        plain = openai.DefaultHttpxClient(verify=False)
        own = {"api_key": "none", "max_retries": 0, "timeout": 60.0, "http_client": plain}
        return openai.OpenAI(base_url=f"{self.url}/v1", **own | options)


@contextmanager
def running(made: Service, *, grace: int = 10, **options: Any) -> Iterator[Running]:
    """Runs a server on a free port of 127.0.0.1."""
    config = uvicorn.Config(app(made, **options), host="127.0.0.1", port=0, **settings(grace=grace))
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    try:
        yield Running(made, server, thread)
    finally:
        server.should_exit = True
        thread.join(30)
