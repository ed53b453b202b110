"""Holds the tools that a model can call: their schemas, and calls that never raise.

Input: the name and the arguments of a call. Output: a JSON value. Whatever goes wrong becomes a
result that says so, because the model is the one who can correct it.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mypt_spec.bodies.json_schema import SchemaError, misfits
from mypt_spec.bodies.strict_json import faults

# The most characters of an error's message.
MAX_MESSAGE = 300
# The types of error that the toolbox itself reports.
FAULTS = (
    "unknown_tool",
    "bad_arguments",
    "tool_error",
    "timeout",
    "bad_result",
)


class ToolFault(Exception):
    """A tool raises this to answer with an error; `kind` is the type of the error."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Tool:
    """A function of one object, the arguments, that returns a JSON value.

    `parameters` is the JSON Schema of the arguments.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    function: Callable[[dict[str, Any]], Any] = field(compare=False)

    @property
    def usage(self) -> str:
        """Returns one line for a system prompt.

        >>> schema = {"properties": {"a": {}, "b": {"default": 5}}, "required": ["a"]}
        >>> print(Tool("f", "does it", schema, dict).usage)
        - f(a, b=5) - does it
        """
        properties, required = (
            self.parameters.get("properties", {}),
            self.parameters.get("required", ()),
        )
        told = [name for name in properties if name in required]
        either = [
            name
            for name in properties
            if name not in required and "default" not in properties[name]
        ]
        told += [" or ".join(either)] if either else []
        told += [
            f"{name}={properties[name]['default']}"
            for name in properties
            if name not in required and "default" in properties[name]
        ]
        return f"- {self.name}({', '.join(told)}) - {self.description}"


class Toolbox:
    """The tools of a conversation, by name. Raises ValueError for two of the same name."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        held = list(tools)
        self._tools = {tool.name: tool for tool in held}
        if len(self._tools) < len(held):
            raise ValueError(
                f"two tools of the same name among {', '.join(tool.name for tool in held)}"
            )

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """Returns the tools in the form of OpenAI's API."""
        return [
            {
                "type": "function",
                "function": {
                    "name": t.name,
                    "description": t.description,
                    "parameters": dict(t.parameters),
                },
            }
            for t in self._tools.values()
        ]

    @property
    def usage(self) -> str:
        """Returns the part of a system prompt that declares the tools."""
        return "Tools:\n" + "\n".join(tool.usage for tool in self._tools.values())

    def call(self, name: str, arguments: dict[str, Any], *, seconds: float | None = None) -> Any:
        """Returns the result of a tool: a JSON value, or `{"error": {"type", "message"}}`.

        The tool and the caller share no list or dict: each may change its own.

        Raises nothing but KeyboardInterrupt. A tool that takes longer than `seconds` is not waited
        for: it continues in its thread, and its result is ignored.
        """
        tool = self._tools.get(name)
        if tool is None:
            return error(
                "unknown_tool",
                f"there is no tool {name!r}; there are {', '.join(self._tools) or 'none'}",
            )
        try:
            wrong = misfits(arguments, dict(tool.parameters))
        except SchemaError as fault:
            return error("bad_arguments", f"the schema of {name} cannot be used: {fault}")
        if wrong:
            return error(
                "bad_arguments",
                "; ".join(f"{pointer or 'arguments'}: {message}" for pointer, message in wrong),
            )
        answer, arguments = _Answer(), copied(arguments)
        if seconds is None:
            answer.of(tool, arguments)
        else:
            run = contextvars.copy_context().run
            thread = threading.Thread(
                target=run, args=(answer.of, tool, arguments), daemon=True, name=f"tool {name}"
            )
            thread.start()
            thread.join(seconds)
            if thread.is_alive():
                return error("timeout", f"{name} gave no answer in {seconds:g} s")
        return answer.value


class _Answer:
    """Holds the result of a tool, which another thread may set."""

    def __init__(self) -> None:
        self.value: Any = None

    def of(self, tool: Tool, arguments: dict[str, Any]) -> None:
        try:
            value = tool.function(arguments)
            fault = next(faults(value), None)
            value = copied(value) if fault is None else None
        except ToolFault as known:
            self.value = error(known.kind, str(known))
        except (Exception, SystemExit) as unknown:
            self.value = error("tool_error", f"{type(unknown).__name__}: {unknown}".rstrip(": "))
        else:
            at = f" at {fault.pointer}" if fault is not None and fault.pointer else ""
            self.value = (
                value
                if fault is None
                else error(
                    "bad_result", f"{tool.name} answered with what is no JSON{at}: {fault.message}"
                )
            )


def copied(value: Any) -> Any:
    """Returns a JSON value as lists and dicts of its own, which nobody else can change."""
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    return [copied(inner) for inner in value] if isinstance(value, list) else value


def error(kind: str, message: str) -> dict[str, Any]:
    """Returns an error as a result."""
    text = message.encode("utf-8", "replace").decode()
    return {
        "error": {
            "type": kind,
            "message": text if len(text) <= MAX_MESSAGE else text[:MAX_MESSAGE] + "…",
        }
    }


def error_type(value: Any) -> str:
    """Returns the type of the error if a result is one; "" for any other result."""
    inner = value.get("error") if isinstance(value, dict) else None
    return str(inner.get("type", "")) if isinstance(inner, dict) else ""
