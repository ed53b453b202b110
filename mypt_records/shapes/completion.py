"""Reads records of a prompt and its completion: texts, or lists of messages as in TRL."""

from collections.abc import Mapping
from typing import Any

from mypt_records.chat import Chat, Message
from mypt_records.reading import Reader
from mypt_records.shapes.sharegpt import message_of, messages_of

ABOUT = "records of prompt and completion"
PROMPT = 'add a top-level "system"'
ROLES = {"prompt": "user", "completion": "assistant"}
TOP = frozenset({"prompt", "completion", "system", "language", "tools", "chat_template_kwargs"})


def fit(record: dict[str, Any]) -> int:
    return 3 if {"prompt", "completion"} <= record.keys() else 0


def read(record: dict[str, Any]) -> Chat:
    return read_as("completion", record)


def read_as(
    shape: str, record: dict[str, Any], roles: Mapping[str, str] = ROLES, top: frozenset[str] = TOP
) -> Chat:
    """Returns a record as a chat of a shape. Never raises.

    `roles` are those of who speaks, by the keys of what they say; `top` are all top-level keys.
    """
    reader = Reader()
    messages = reader.system(record)
    for key, role in roles.items():
        if key in record:
            messages += as_turns(record[key], f"/{key}", role, reader)
        else:
            reader.add("MYP102", f'the record has no "{key}"', "", hint=f'add "{key}": "..."')
    tools = reader.tools(record.get("tools"), "/tools")
    return reader.chat(shape, record, messages, tools, top=top, used=(*roles, "system"))


def as_turns(value: Any, at: str, role: str, reader: Reader) -> list[Message]:
    """Returns what one side says: a text, one message, or a list of messages."""
    if isinstance(value, list) and value and all(isinstance(text, str) for text in value):
        fault = f'"{at[1:]}" must be one text, got a list of {len(value)}'
        one = "write the text alone" if len(value) == 1 else "make a record of each"
        reader.add("MYP104", fault, at, hint=one)
        return []
    if isinstance(value, list):
        return messages_of(value, at, reader)
    if isinstance(value, dict):
        message = message_of(value, at, reader)
        return [] if message is None else [message]
    text = reader.string(value, at, at[1:])
    if text is None:
        if value is None:
            reader.add("MYP104", f'"{at[1:]}" must be a string or messages, got null', at)
        return []
    return [Message(role, at[1:], at, (text,))]
