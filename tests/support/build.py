"""Build records, and the files that hold them, as tests need them.

Messages have the keys of OpenAI and TRL, which most dialects share. Further keys are added by name:
`assistant("Hello.", weight=0)`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def message(role: str, content: Any = "Hi", **more: Any) -> Record:
    """Returns a message."""
    return {"role": role, "content": content, **more}


def system(content: Any = "S", **more: Any) -> Record:
    return message("system", content, **more)


def user(content: Any = "Hi", **more: Any) -> Record:
    return message("user", content, **more)


def assistant(content: Any = "Hello.", **more: Any) -> Record:
    return message("assistant", content, **more)


def tool(content: Any = "4", **more: Any) -> Record:
    return message("tool", content, **more)


def call(name: str = "find", arguments: Any = '{"q": 1}', **more: Any) -> Record:
    """Returns a call of a tool, an element of `tool_calls`; `arguments` are written as they are."""
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def calls(*tool_calls: Record, content: Any = "", **more: Any) -> Record:
    """Returns an assistant's message of calls."""
    return assistant(content, tool_calls=list(tool_calls), **more)


def function(name: str = "find", properties: Record | None = None, **more: Any) -> Record:
    """Returns the definition of a tool; `more` are keys of its parameters, `required` for one."""
    parameters = {"type": "object", "properties": properties or {}, **more}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def chat(*messages: Record, **more: Any) -> Record:
    """Returns a record of messages; a question and an answer if there are none."""
    return {"messages": list(messages) or [user(), assistant()], **more}


def native(question: str = "Hi", answer: str = "Yes.", **more: Any) -> Record:
    """Returns a record of the main format: a system prompt, a question and an answer."""
    return {"system": "S", **chat(user(question), assistant(answer)), **more}


def lines(*records: Any) -> list[bytes]:
    """Returns lines of JSON without their ends; texts and bytes are lines already."""
    return [
        record if isinstance(record, bytes) else (
            record if isinstance(record, str) else json.dumps(record, ensure_ascii=False)
        ).encode()
        for record in records
    ]  # fmt: skip


def write(path: Path | str, *records: Any) -> str:
    """Writes JSONL, the folder around it included, and returns its path as a command takes it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line + b"\n" for line in lines(*records)))
    return str(path)


def read(path: Path | str) -> list[Any]:
    """Reads JSONL."""
    return [json.loads(line) for line in Path(path).read_bytes().splitlines()]


def write_texts(folder: Path, texts: Mapping[str, str]) -> Path:
    """Writes text files into a folder, the folders around them included; returns it."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def contents(folder: Path | str) -> dict[str, bytes]:
    """Returns the bytes of all files below a folder, by their paths from it."""
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
