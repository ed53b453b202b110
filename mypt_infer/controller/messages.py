"""Reads the messages of a history as the messages of a record of the format.

In a history, a role may have the name that other formats use (`tool`), a call may be the block that
the model wrote, and a result may be the block that was rendered. A result may have no name; then it
has the name of the call before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mypt_infer.parsing import find_last_toolcall, read_toolresult
from mypt_spec import Dialect
from mypt_spec.bodies.strict_json import lone_surrogate
from mypt_spec.record_schema import JSON

Message = dict[str, Any]


def heard(messages: Iterable[Message], dialect: Dialect) -> list[Message]:
    """Returns messages as the messages of a record.

    Raises ValueError if a message has another name than the block in it, or than its call.
    """
    schema = dialect.adapter.SCHEMA
    out: list[Message] = []
    for given in messages:
        message = _clean(given)
        role = message.get("role")
        if isinstance(role, str):
            message["role"] = role = schema.aliases.get(role, role)
        fields = schema.roles.get(role, {}) if isinstance(role, str) else {}
        content = message.get("content")
        if "arguments" in fields and "arguments" not in message and isinstance(content, str):
            _call(message, dialect)
        elif "content" in fields and fields["content"].kind == JSON:
            before = out[-1] if out and "arguments" in out[-1] else {}
            _result(message, dialect, before.get("name"))
        out.append(message)
    return out


def _call(message: Message, dialect: Dialect) -> None:
    """Replaces the block of a call by its name and arguments."""
    call = find_last_toolcall(message["content"], dialect.name)
    if call is not None:
        del message["content"]
        _name(message, call.name)
        message["arguments"] = call.arguments


def _result(message: Message, dialect: Dialect, called: str | None) -> None:
    """Replaces the block of a result by its value, and names it after its call."""
    content = message.get("content")
    found = read_toolresult(content, dialect.name) if isinstance(content, str) else None
    if found is not None:
        message["content"] = found[1]
        if found[0]:
            _name(message, found[0])
    if called is not None and message.setdefault("name", called) != called:
        raise ValueError(f"the result is of {message['name']!r}, the call before it of {called!r}")


def _name(message: Message, name: str) -> None:
    if message.setdefault("name", name) != name:
        raise ValueError(f"the message is named {message['name']!r}, the block in it {name!r}")


def _clean(message: Message) -> Message:
    """Returns a message without lone surrogates, which no token has."""

    def of(value: Any) -> Any:
        return (
            value.encode("utf-8", "replace").decode()
            if isinstance(value, str) and lone_surrogate(value)
            else value
        )

    return {key: of(value) for key, value in message.items()}
