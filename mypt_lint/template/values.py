"""Takes a conversation apart into the values that a chat template has to write, and finds them.

In the shipped conversations no two values of one are alike, so a value is found by its text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Value:
    """One value: what it is called in findings, its text, and the index of its message.

    `message` is -1 for what belongs to a tool.
    """

    kind: str
    text: str
    message: int


# Values without which a format may well do.
DETAILS = ("id of a call", "name of a result", "earlier thought", "description")
BY_MODEL = ("answer", "thought", "name of a call", "argument")
NOT_BY_MODEL = ("system prompt", "developer message", "question", "result")
_ANCHORS = ("question", "answer", "result")  # what is written once
_NAMES = {
    "system": "system prompt",
    "developer": "developer message",
    "user": "question",
    "assistant": "answer",
    "tool": "result",
}


def values(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> list[Value]:
    """Returns the values of a conversation, messages first, in their order."""
    last = max((i for i, m in enumerate(messages) if m["role"] == "assistant"), default=0)
    found = [value for i, m in enumerate(messages) for value in _of_message(m, i, i < last)]
    for tool in tools or ():
        function = tool["function"]
        found += [
            Value("declared tool", function["name"], -1),
            Value("description", function["description"], -1),
        ]
    return [value for value in found if value.text.strip()]


def _of_message(message: dict[str, Any], at: int, earlier: bool) -> Iterator[Value]:
    if thought := message.get("reasoning_content"):
        yield Value("earlier thought" if earlier else "thought", thought, at)
    content = message.get("content") or ""
    parts = [content] if isinstance(content, str) else [part["text"] for part in content]
    yield from (Value(_NAMES[message["role"]], text, at) for text in parts)
    if message["role"] == "tool" and "name" in message:
        yield Value("name of a result", message["name"], at)
    for call in message.get("tool_calls") or ():
        function = call["function"]
        yield Value("name of a call", function["name"], at)
        given = function["arguments"]
        for text in _leaves(json.loads(given) if isinstance(given, str) else given):
            yield Value("argument", text, at)
        if "id" in call:
            yield Value("id of a call", call["id"], at)


def _leaves(value: Any) -> Iterator[str]:
    """Yields the strings inside of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)


def places(found: list[Value], text: str) -> list[tuple[Value, tuple[int, int]]]:
    """Returns the values that are in a text with their first spans, in the order of the text.

    What is written once comes first. Another value of a message is between the texts of the
    messages before and after it, and nothing is found twice: a declared tool, its call and its
    result have the same name.
    """
    at: list[tuple[Value, tuple[int, int]]] = []
    once: list[tuple[int, tuple[int, int]]] = []  # message, span
    for value in found:
        if value.kind in _ANCHORS:
            span = _place(value, text, max((end for _, (_, end) in once), default=0), len(text))
            if span is not None:
                at.append((value, span))
                once.append((value.message, span))
    for value in sorted(found, key=lambda value: value.message < 0):
        if value.kind in _ANCHORS:
            continue
        start, end = 0, len(text)
        if value.message >= 0:
            start = max((b for i, (_, b) in once if i < value.message), default=0)
            end = min((a for i, (a, _) in once if i > value.message), default=end)
        span = _place(value, text, start, end)
        while span is not None and any(span == taken for _, taken in at):
            span = _place(value, text, span[1], end)
        if span is not None:
            at.append((value, span))
    return sorted(at, key=lambda pair: pair[1])


def _place(value: Value, text: str, start: int, end: int) -> tuple[int, int] | None:
    """Returns the first span of a value in a part of a text, white space around it left out."""
    for spelled in spellings(value.text.strip()):
        if (at := text.find(spelled, start, end)) >= 0:
            return at, at + len(spelled)
    return None


def spellings(text: str) -> tuple[str, str, str]:
    """Returns how a template may write a text: as it is, or as the inside of a JSON string."""
    return text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]
