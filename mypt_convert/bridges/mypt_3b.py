"""Turns records of MyPT's phase 3B into steps and back."""

from __future__ import annotations

from typing import Any

from mypt_convert.steps import (
    Conversation,
    Step,
    answers,
    extras_of,
    first_carries,
    kept,
    messages_of,
)
from mypt_spec.table import TokenTable

KINDS = frozenset({"system", "context", "user", "text", "call", "result"})
EXTRAS: frozenset[str] = frozenset()
HAS_IDS = PARALLEL = False


def steps(record: dict[str, Any], table: TokenTable) -> Conversation:
    out = [Step("system", record["system"], at="/system")] if "system" in record else []
    for at, message, meta in messages_of(record):
        body = f"{at}/content"
        found = (
            [Step("context", message["context"], at=f"{at}/context")]
            if "context" in message
            else []
        )
        if message["role"] == "assistant_toolcall":
            found.append(Step("call", message["arguments"], message["name"], at=f"{at}/arguments"))
        elif message["role"] == "tool_result":
            found.append(Step("result", message["content"], message["name"], at=body))
        else:
            found.append(
                Step(
                    "text" if message["role"] == "assistant" else "user",
                    message["content"],
                    at=body,
                )
            )
        out += first_carries(found, meta)
    return Conversation(tuple(out), extras_of(record, "system"))


def record(conversation: Conversation, table: TokenTable) -> dict[str, Any]:
    out: dict[str, Any] = {}
    messages: list[dict[str, Any]] = []
    context: dict[str, Any] = {}  # of the next user message, with its metadata
    final = answers(conversation.steps)
    for i, step in enumerate(conversation.steps):
        meta = kept(step.meta)
        if step.kind == "system" and not out:
            out["system"] = step.value
        elif step.kind == "context" and not context:
            context = {"context": step.value} | meta
        elif step.kind == "user":
            messages.append({"role": "user", "content": step.value} | context | meta)
            context = {}
        elif step.kind == "call":
            messages.append(
                {"role": "assistant_toolcall", "name": step.name, "arguments": step.value} | meta
            )
        elif step.kind == "result":
            messages.append(
                {"role": "tool_result", "name": step.name, "content": step.value} | meta
            )
        elif i in final:
            messages.append({"role": "assistant", "content": step.value} | meta)
    return out | {"messages": messages}
