"""Offers the tools of a Toolbox to clients of the Model Context Protocol.

Input: a Toolbox. Output: a server, for stdio or for streamable HTTP. What a tool answers is the
same JSON value that a model of ours sees, as text and, where it is an object, as structured
content; an error of a tool is a result with `is_error`, because the client's model can correct it.
"""

import asyncio
import json
from typing import Any

from mcp import types
from mcp.server import Server
from mcp.server.stdio import stdio_server

from mypt_infer.toolbox import Toolbox, error_type


def server_of(tools: Toolbox, *, name: str, version: str, seconds: float | None = None) -> Any:
    """Returns a server of the package mcp that offers tools; a call may take `seconds`."""

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        rows = [
            types.Tool(name=t.name, description=t.description, input_schema=dict(t.parameters))
            for t in tools
        ]
        return types.ListToolsResult(tools=rows)

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        arguments = dict(params.arguments or {})
        value = await asyncio.to_thread(tools.call, params.name, arguments, seconds=seconds)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=json.dumps(value, ensure_ascii=False))],
            structured_content=value if isinstance(value, dict) else None,
            is_error=bool(error_type(value)),
        )

    return Server(name, version=version, on_list_tools=list_tools, on_call_tool=call_tool)


def serve_stdio(server: Any) -> None:
    """Serves one client on stdin and stdout, until it goes. Nothing else may write to stdout."""

    async def run() -> None:
        async with stdio_server() as (reads, writes):
            await server.run(reads, writes, server.create_initialization_options())

    asyncio.run(run())


def serve_http(server: Any, port: int) -> None:
    """Serves clients at http://127.0.0.1:PORT/mcp, until interrupted."""
    import uvicorn

    uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=port, log_level="warning")
