"""Brings the tools of a server of the Model Context Protocol into a Toolbox.

Input: a command that speaks MCP on stdin and stdout, or the address of a server. Output: Tools
whose functions call it. The connection lives in an event loop of its own thread, since a chat waits
for tools in threads, and a client must be closed by the task that has opened it.
"""

import asyncio
import shlex
import threading
from concurrent.futures import Future
from functools import partial
from typing import Any

from mcp import Client, StdioServerParameters, types

from mypt_infer.toolbox import Tool, ToolFault

SECONDS = 30.0  # to start, and to list tools


class McpError(ValueError):
    """A server cannot be reached, or does not answer as one; the message says which and why."""


class Connection:
    """A connection to a server, and its `tools`. Close it when it is no longer used.

    `server` is a command line, or an address that begins with http:// or https://. Raises McpError
    if the server does not list its tools within `seconds`.
    """

    def __init__(self, server: str, *, seconds: float = SECONDS) -> None:
        self.server = server
        self._ready: Future[list[types.Tool]] = Future()
        self._loop = asyncio.new_event_loop()
        self._leave = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="mcp")
        self._thread.start()
        try:
            tools = self._ready.result(seconds)
        except TimeoutError:
            self.close()
            raise McpError(f"{server}: has not listed its tools after {seconds:g} s") from None
        except Exception as error:
            raise McpError(f"{server}: is not a responding MCP server: {_message(error)}") from None
        self.tools = [
            Tool(t.name, t.description or "", t.input_schema, partial(self._call, t.name))
            for t in tools
        ]

    def close(self) -> None:
        """Ends the connection, and a server that was started for it."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._leave.set)
            self._thread.join(SECONDS)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._live())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
        finally:
            self._loop.close()

    async def _live(self) -> None:
        async with Client(_target(self.server)) as self._client:
            tools: list[types.Tool] = []
            page = None
            while True:
                result = await self._client.list_tools(cursor=page)
                tools += result.tools
                if (page := result.next_cursor) is None:
                    break
            self._ready.set_result(tools)
            await self._leave.wait()

    def _call(self, name: str, arguments: dict[str, Any]) -> Any:
        if not self._thread.is_alive():
            raise ToolFault("tool_error", f"{self.server} has ended")
        call = self._client.call_tool(name, arguments)
        try:
            return _value(asyncio.run_coroutine_threadsafe(call, self._loop).result())
        except ToolFault:
            raise
        except Exception as error:
            raise ToolFault("tool_error", _message(error)) from None


def _target(server: str) -> Any:
    if server.startswith(("http://", "https://")):
        return server
    if not (words := shlex.split(server)):
        raise McpError("--mcp needs a command or an address")
    return StdioServerParameters(command=words[0], args=words[1:])


def _value(result: types.CallToolResult) -> Any:
    """Returns what a tool answered as JSON; other parts than texts are named. Raises ToolFault."""
    texts = [
        part.text if isinstance(part, types.TextContent) else f"[{part.type}, not shown]"
        for part in result.content
    ]
    text = "\n".join(texts)
    if result.is_error:
        raise ToolFault("tool_error", text or "the tool failed and did not say why")
    return {"text": text} if result.structured_content is None else result.structured_content


def _message(error: BaseException) -> str:
    """Returns what an error says; of a group of errors, what its first one says."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}".rstrip(": ")
