"""A server that answers as it is told: a stand-in for models of other programs."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from mypt_infer.toolbox import Tool

BEES = {"documents": [{"title": "Bees", "text": "Bees make honey.", "chunk_id": "d1#0"}]}
FOUND = Tool(
    "workspace.search",
    "find documents",
    {
        "type": "object",
        "properties": {"query": {"type": "string"}, "top_k": {"type": "integer"}},
        "required": ["query", "top_k"],
    },
    lambda arguments: BEES,
)


Answer = tuple[int, Any]


@contextmanager
def stand_in(answer: Callable[[str, dict[str, Any]], Answer]) -> Iterator[str]:
    """Runs a server on 127.0.0.1; yields its address.

    `answer` takes the path and the body of a request, and returns a status and a JSON value, or
    bytes.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            status, value = answer(self.path, json.loads(self.rfile.read(size) or b"{}"))
            body = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def models(*names: str, **more: Any) -> Answer:
    """What a server says that it has."""
    return 200, {"object": "list", "data": [{"id": n, "object": "model", **more} for n in names]}


def completion(text: str, reason: str = "stop") -> Answer:
    """A completion that has a text, and no ids."""
    choice = {"index": 0, "text": text, "finish_reason": reason, "logprobs": None}
    head = {"id": "c", "object": "text_completion", "created": 0, "model": "m"}
    return 200, {**head, "choices": [choice]}


def chat_answer(
    message: dict[str, Any], finish_reason: str = "stop", logprobs: Any = None
) -> Answer:
    """An answer of a chat that has this message."""
    choice = {"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": logprobs}
    head = {"id": "c", "object": "chat.completion", "created": 0, "model": "m"}
    return 200, {**head, "choices": [choice]}
