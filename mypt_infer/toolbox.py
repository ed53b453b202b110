"""Holds the tools that a model can call: their schemas, and calls that never raise.

Input: the name and the arguments of a call. Output: a JSON value. Whatever goes wrong becomes a
result that says so, because the model is the one who can correct it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mypt_infer.tool_run import Finished, Unfinished, here, threaded, time_limit
from mypt_spec.bodies.json_schema import SchemaError, misfits
from mypt_spec.bodies.strict_json import faults, shortened

# Says whether a result has room.
Fits = Callable[[Any], bool]
# The most characters of an error's message.
MAX_MESSAGE = 300
# The types of error that the toolbox itself reports.
FAULTS = ("unknown_tool", "bad_arguments", "tool_error", "timeout", "cancelled", "bad_result")


class ToolFault(Exception):
    """A tool raises this to answer with an error; `kind` is the type of the error."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Tool:
    """A function of one object, the arguments, that returns a JSON value.

    `parameters` is the JSON Schema of the arguments. `shorten` makes a result fit that is too long
    for the model: it takes the arguments, the result and a function that says whether a result
    fits. Without it, texts are cut and items dropped.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    function: Callable[[dict[str, Any]], Any] = field(compare=False)
    shorten: Callable[[dict[str, Any], Any, Fits], Any] | None = field(default=None, compare=False)

    @property
    def usage(self) -> str:
        """Returns one line for a system prompt.

        >>> schema = {"properties": {"a": {}, "b": {"default": 5}}, "required": ["a"]}
        >>> print(Tool("f", "does it", schema, dict).usage)
        - f(a, b=5) - does it
        """
        properties = self.parameters.get("properties", {})
        required = self.parameters.get("required", ())
        optional = {name: schema for name, schema in properties.items() if name not in required}
        parameters = [name for name in properties if name in required]
        if either := [name for name, schema in optional.items() if "default" not in schema]:
            parameters.append(" or ".join(either))
        parameters += [
            f"{name}={json.dumps(schema['default'], ensure_ascii=False)}"
            for name, schema in optional.items()
            if "default" in schema
        ]
        return f"- {self.name}({', '.join(parameters)}) - {self.description}"


class Toolbox:
    """The tools of a conversation, by name. Raises ValueError for two of the same name."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        listed_tools = list(tools)
        self._tools = {tool.name: tool for tool in listed_tools}
        if len(self._tools) < len(listed_tools):
            names = ", ".join(tool.name for tool in listed_tools)
            raise ValueError(f"two tools of the same name among {names}")

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """Returns the tools in the form of OpenAI's API."""
        functions = (
            {"name": t.name, "description": t.description, "parameters": dict(t.parameters)}
            for t in self
        )
        return [{"type": "function", "function": function} for function in functions]

    @property
    def usage(self) -> str:
        """Returns the part of a system prompt that declares the tools."""
        return "Tools:\n" + "\n".join(tool.usage for tool in self._tools.values())

    def call(
        self,
        name: str,
        arguments: dict[str, Any],
        *,
        seconds: float | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Any:
        """Returns the result of a tool: a JSON value, or `{"error": {"type", "message"}}`.

        The tool and the caller share no list or dict: each may change its own. A tool that takes
        longer than `seconds` is not waited for, nor is one after `stopped()` is true: it continues
        in its thread, and its result is ignored. Without `seconds` a tool runs in this thread.
        Raises nothing but KeyboardInterrupt, and ValueError for seconds that are no number above 0.
        """
        limit = time_limit("seconds", seconds)
        tool = self._fitting(name, arguments)
        if not isinstance(tool, Tool):
            return tool
        try:
            if seconds is None:
                return _result(tool, here(tool.function, copied(arguments)))
            run = threaded(tool.function, copied(arguments), seconds=limit, stopped=stopped)
            return _result(tool, run)
        except Unfinished:
            return _unfinished(tool, limit, stopped)

    def shortened(self, name: str, arguments: dict[str, Any], value: Any, fits: Fits) -> Any:
        """Returns a result as its tool shortens it, if it does not fit; else the same result.

        It may still not fit: few tools can shorten, and none below a certain length.
        """
        tool = self._tools.get(name)
        if tool is None or tool.shorten is None or error_type(value) or fits(value):
            return value
        try:
            short = copied(tool.shorten(copied(arguments), value, fits))
            return value if next(faults(short), None) is not None else short
        except Exception:  # the caller shortens what no tool does
            return value

    def _fitting(self, name: str, arguments: dict[str, Any]) -> Tool | dict[str, Any]:
        tool = self._tools.get(name)
        if tool is None:
            names = ", ".join(self._tools) or "none"
            return error("unknown_tool", f"there is no tool {name!r}; there are {names}")
        try:
            wrong = misfits(arguments, dict(tool.parameters))
        except SchemaError as fault:
            return error("bad_arguments", f"the schema of {name} cannot be used: {fault}")
        reasons = [f"{pointer or 'arguments'}: {message}" for pointer, message in wrong]
        return error("bad_arguments", "; ".join(reasons)) if reasons else tool


def _unfinished(tool: Tool, seconds: float | None, stopped: Callable[[], bool]) -> dict[str, Any]:
    if seconds is None or stopped():
        return error("cancelled", f"{tool.name} was stopped")
    return error("timeout", f"{tool.name} gave no answer in {seconds:g} s")


def _result(tool: Tool, outcome: Finished) -> Any:
    if outcome.raised is not None:
        try:
            message = str(outcome.raised)
        except Exception:
            message = ""
        if isinstance(outcome.raised, ToolFault):
            return error(str(outcome.raised.kind), message)
        return error("tool_error", f"{type(outcome.raised).__name__}: {message}".rstrip(": "))
    try:
        fault = next(faults(outcome.value), None)
        if fault is None:
            return copied(outcome.value)
    except RuntimeError as changed:  # the tool is still changing what it returned
        return error("bad_result", f"{tool.name}: {changed}")
    at = f" at {fault.pointer}" if fault.pointer else ""
    message = f"the answer of {tool.name} is not valid JSON{at}: {fault.message}"
    return error("bad_result", message)


def copied(value: Any) -> Any:
    """Returns a JSON value as lists and dicts of its own, which nobody else can change."""
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    return [copied(inner) for inner in value] if isinstance(value, list) else value


def error(kind: str, message: str) -> dict[str, Any]:
    text = message.encode("utf-8", "replace").decode()
    return {"error": {"type": kind, "message": shortened(text, MAX_MESSAGE)}}


def error_type(value: Any) -> str:
    """Returns the type of the error if a result is one; "" for any other result."""
    inner = value.get("error") if isinstance(value, dict) else None
    return str(inner.get("type", "")) if isinstance(inner, dict) else ""
