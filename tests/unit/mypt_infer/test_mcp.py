"""The Model Context Protocol, against the library's own client."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from mypt_infer.toolbox import Tool, Toolbox
from tests.support.build import write_texts
from tests.support.children import child

pytestmark = pytest.mark.extra("mcp")


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    text = "# Passwords\n\nA password has twelve letters.\n"
    return write_texts(tmp_path / "docs", {"one.md": text})


def test_the_tools_of_a_workspace_over_stdio(documents: Path, tmp_path: Path) -> None:
    """Through the command, as a client starts it; stdout carries nothing but the protocol."""
    from mcp import Client, StdioServerParameters

    words = [str(documents), "--mcp", "--index-dir", str(tmp_path / "index")]
    command = ["-m", "mypt.index", *words]
    root = Path(__file__).parents[3]
    started = StdioServerParameters(command=sys.executable, args=command, cwd=root)

    async def run() -> None:
        async with Client(started) as client:
            listed = await client.list_tools()
            names = [tool.name.removeprefix("workspace.") for tool in listed.tools]
            assert names == ["search", "list_docs", "get_doc", "summarize"]
            found = await client.call_tool("workspace.search", {"query": "password"})
            assert not found.is_error
            assert "twelve" in found.structured_content["documents"][0]["text"]
            assert json.loads(found.content[0].text) == found.structured_content
            wrong = await client.call_tool("workspace.search", {"top_k": 3})
            assert wrong.is_error
            assert "query" in wrong.content[0].text
            assert (await client.call_tool("nothing", {})).is_error

    asyncio.run(run())


def test_the_tools_of_a_workspace_over_http(documents: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [str(documents), "--mcp-port", str(port), "--index-dir", str(tmp_path / "index")]
    command = [sys.executable, "-m", "mypt.index", *words]
    with child(command, stderr=subprocess.PIPE) as server:
        found = asyncio.run(search(f"http://127.0.0.1:{port}/mcp"))
        assert "twelve" in found.structured_content["documents"][0]["text"]
        server.terminate()
        server.wait(timeout=60)


async def search(address: str) -> Any:
    """Asks a server that has just been started."""
    from mcp import Client

    until = time.monotonic() + 60
    while True:
        try:
            async with Client(address) as client:
                return await client.call_tool("workspace.search", {"query": "password"})
        except Exception:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.2)


def test_calls_at_once() -> None:
    """Many calls of one client; a slow one is answered with an error, the others are not held."""

    def slow(arguments: dict[str, Any]) -> Any:
        threading.Event().wait(arguments["n"])
        return arguments

    number = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
    tools = Toolbox([Tool("slow", "waits", number, slow)])

    from mcp import Client

    from mypt_infer.mcp.offer import server_of

    async def run() -> list[Any]:
        async with Client(server_of(tools, name="t", version="1", seconds=1.0)) as client:
            calls = [client.call_tool("slow", {"n": n}) for n in [20, *[0.01] * 30]]
            return await asyncio.gather(*calls)

    first, *rest = asyncio.run(run())
    assert first.is_error
    assert "no answer in 1 s" in first.content[0].text
    assert [result.structured_content for result in rest] == [{"n": 0.01}] * 30
