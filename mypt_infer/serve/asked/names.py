"""Maps names of tools between the API and the model, there and back.

The API takes letters, digits, `_` and `-` only; a model may have learnt `workspace.search`. Input:
the tools and messages of a request. Output: the same with the names that the model knows, and for
each call the name that the client used.
"""

import copy
import re
from collections.abc import Iterable
from typing import Any

from mypt_infer.serve.asked.errors import ApiError


def outer(name: str) -> str:
    """Returns a name as the API takes it.

    >>> outer("workspace.search")
    'workspace_search'
    """
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


class Names:
    """The names of one request. `names` are names of the model that the API does not take."""

    def __init__(self, names: Iterable[str]) -> None:
        self._inner = {outer(name): name for name in names}
        self._outer: dict[str, str] = {}

    def inner(self, name: str) -> str:
        """Returns the model's name of a tool, and remembers how the client calls it.

        Raises ApiError where two names of the client are one name of the model.
        """
        inner_name = self._inner.get(name, name)
        if self._outer.setdefault(inner_name, name) != name:
            raise ApiError(
                f"{self._outer[inner_name]!r} and {name!r} are the same tool of the model, "
                f"{inner_name!r}: use one of the names",
                param="tools",
            )
        return inner_name

    def back(self, name: str) -> str:
        """Returns the client's name of a tool that the model calls."""
        return self._outer.get(name) or name

    def tools(self, tools: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Returns tools with the model's names, without members that are null."""
        out = copy.deepcopy(list(tools))
        for tool in out:
            if isinstance(function := tool.get("function"), dict):
                tool["function"] = {k: v for k, v in function.items() if v is not None}
            self._named(tool.get("function"))
        return out

    def messages(self, messages: Iterable[Any]) -> list[Any]:
        """Returns messages with the model's names."""
        out = copy.deepcopy(list(messages))
        for message in out:
            if not isinstance(message, dict):
                continue
            if message.get("role") == "tool":
                self._named(message)
            calls = message.get("tool_calls")
            for call in calls if isinstance(calls, list) else ():
                self._named(call.get("function") if isinstance(call, dict) else None)
        return out

    def _named(self, value: Any) -> None:
        if isinstance(value, dict) and isinstance(value.get("name"), str):
            value["name"] = self.inner(value["name"])
