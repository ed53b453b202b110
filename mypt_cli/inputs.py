"""Reads small files that options name: texts, and lists of tools."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from mypt_cli.errors import UsageError


def text_of(path: str) -> str:
    """Returns the text of a file, `-` for standard input. Raises UsageError."""
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return data.decode("utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8: byte {error.start + 1}") from None


def json_of(path: str) -> Any:
    """Returns the JSON value in a file, `-` for standard input. Raises UsageError."""
    try:
        return json.loads(text_of(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}") from None


def refuse_pipe(path: str) -> None:
    """Raises UsageError for a pipe or a device, which may be read for ever."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise UsageError(f"{path}: is not a regular file; name one")


def tools_of(path: str | None) -> list[Any] | None:
    """Returns a JSON list of tools, None where no file is named. Raises UsageError.

    An object with the list under "tools", as servers answer, is read, too.
    """
    if path is None:
        return None
    tools = json_of(path)
    if isinstance(tools, dict) and isinstance(tools.get("tools"), list):
        tools = tools["tools"]
    if not isinstance(tools, list):
        raise UsageError(f"{path}: expected a JSON list of tools, got {type(tools).__name__}")
    return tools
