"""Runs `mypt-serve`: a model behind an API that clients of OpenAI's speak."""

from __future__ import annotations

import argparse
import gc
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mypt.options import options
from mypt_cli.command import Command
from mypt_cli.run import saying

if TYPE_CHECKING:
    from mypt_infer.serve.service import Service

PROG = "mypt-serve"
KEY = "MYPT_SERVE_KEY"


def _run(chosen: argparse.Namespace) -> None:
    try:
        import torch
        import uvicorn

        import mypt_infer.serve.app as application
    except ImportError as error:
        raise ValueError(f"serving needs {error.name}: pip install 'mypt-tags[serve]'") from None
    from mypt_infer.serve.guard import LOOPBACK

    key = os.environ.get(KEY) or None
    if key is not None and key != key.strip():
        raise ValueError(f"{KEY}: a key cannot begin or end with white space: no header keeps it")
    if key is None and chosen.host not in LOOPBACK:
        raise ValueError(f"--host {chosen.host}: others could ask, too; set {KEY} to a key")
    if chosen.threads is not None:
        torch.set_num_threads(chosen.threads)
    service = _service(chosen)
    app = application.app(service, key=key, hosts=LOOPBACK if key is None else None)
    listening = _socket(chosen.host, chosen.port)
    host = f"[{chosen.host}]" if ":" in chosen.host else chosen.host
    print(
        f"{service.name} ({service.dialect.name}) at "
        f"http://{host}:{listening.getsockname()[1]}/v1"
        f"{'' if key is None else f'; key: that of {KEY}'}",
        file=sys.stderr,
        flush=True,
    )
    config = uvicorn.Config(app, **settings(grace=chosen.grace))
    # The packages, the model and the dialect are some 300,000 objects. Each full collection of
    # garbage would look at them for about a tenth of a second, in the middle of a step.
    gc.collect()
    gc.freeze()
    for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises them again after it has ended
        signal.signal(number, lambda *_: None)
    uvicorn.Server(config).run([listening])


def settings(*, grace: int) -> dict[str, Any]:
    """Returns how uvicorn runs: without lines of access, which would name what is asked."""
    return {
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "ws": "none",
        "lifespan": "on",
        "timeout_graceful_shutdown": grace,
    }


def _socket(host: str, port: int) -> socket.socket:
    try:
        kind = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        out = socket.socket(kind[0], kind[1])
        out.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        out.bind(kind[4])
        out.listen(2048)
    except OSError as error:
        raise ValueError(f"cannot listen at {host}, port {port}: {error.strerror}") from None
    return out


def _service(chosen: argparse.Namespace) -> Service:
    """Returns the service that the options ask for. Raises ValueError saying what is wrong."""
    from mypt_infer.generate.opened import loaded, spoken
    from mypt_infer.serve.service import Limits, Service
    from mypt_infer.workspace.tools import TOOL_REGISTRY
    from mypt_model.folder import history_of

    for name in ("rows", "queue", "max_new_tokens", "timeout"):
        if getattr(chosen, name) < (0 if name == "queue" else 1):
            raise ValueError(f"--{name.replace('_', '-')} is {getattr(chosen, name)}")
    folder, dialect = spoken(
        chosen.model, choice=chosen.dialect, vocabulary=chosen.vocab,
        say=saying(PROG, quiet=False),
    )  # fmt: skip
    model = loaded(chosen.model, chosen.device)
    limits = Limits(
        rows=chosen.rows,
        queue=chosen.queue,
        new_tokens=chosen.max_new_tokens,
        seconds=chosen.timeout,
    )
    return Service(
        model,
        dialect,
        name=chosen.name or Path(chosen.model).resolve().name,
        folder=folder,
        system=chosen.system,
        history=history_of(chosen.model),
        tools=[*TOOL_REGISTRY, *chosen.tool],
        limits=limits,
        device=chosen.device,
    )


main = Command(PROG, __file__, options(__file__), _run, quiet="", errors=(ValueError,))

if __name__ == "__main__":
    sys.exit(main())
