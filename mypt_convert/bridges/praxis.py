"""Turns records of Praxis into steps and back. Results are text there, and have no name."""

from __future__ import annotations

from typing import Any

from mypt_convert.bridges.steps import (
    Conversation,
    Step,
    extras_of,
    first_carries,
    messages_of,
    metadata_of,
    result_text,
    result_value,
)
from mypt_spec.table import TokenTable

KINDS = frozenset({"system", "developer", "user", "text", "call", "result", "eos"})
EXTRAS: frozenset[str] = frozenset()
HAS_IDS = PARALLEL = NEEDS_IDS = False


def steps(record: dict[str, Any], table: TokenTable) -> Conversation:
    out: list[Step] = []
    for at, message, meta in messages_of(record):
        role, group, called = message["role"], list[Step](), ""
        for i, item in enumerate(message.get("contents", ())):
            here = f"{at}/contents/{i}"
            if item["type"] == "text":
                group.append(Step("text", item["text"], at=f"{here}/text"))
            elif item["type"] == "toolcall":
                called = item["name"]
                group.append(Step("call", item["arguments"], called, at=f"{here}/arguments"))
            else:
                group.append(
                    Step("result", result_value(item["content"]), called, at=f"{here}/content")
                )
        if "contents" not in message:
            group.append(
                Step(
                    "text" if role == "assistant" else role,
                    message.get("content", ""),
                    at=f"{at}/content",
                )
            )
        out += first_carries(group, meta)
    return Conversation(tuple(out), extras_of(record))


def record(conversation: Conversation, table: TokenTable) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    for step in conversation.steps:
        item = _item(step)
        if step.kind == "eos":
            messages.append({"role": "eos"} | metadata_of(step.meta))
        elif item is None and step.kind in KINDS:
            messages.append({"role": step.kind, "content": step.value} | metadata_of(step.meta))
        elif item is not None:
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "contents": []} | metadata_of(step.meta))
            items = messages[-1]["contents"]
            # Texts side by side would be read as one: of two drafts the later one stays.
            if items and items[-1]["type"] == item["type"] == "text":
                items.pop()
            items.append(item)
    return {"messages": messages}


def _item(step: Step) -> dict[str, Any] | None:
    if step.kind == "text":
        return {"type": "text", "text": step.value}
    if step.kind == "call":
        return {"type": "toolcall", "name": step.name, "arguments": step.value}
    return (
        {"type": "toolresult", "content": result_text(step.value)}
        if step.kind == "result"
        else None
    )
