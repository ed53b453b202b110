"""Turns what the records of MyPT and of its phase 3B share into steps and back.

The two differ in the name of a result's role, and in what an answer may hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mypt_convert.bridges.steps import Conversation, Step, extras_of, first_carries, messages_of

# Returns the steps of the assistant's message at a place.
Answer = Callable[[dict[str, Any], str], list[Step]]


def conversation_of(record: dict[str, Any], result: str, answer: Answer) -> Conversation:
    """Returns a canonical record as steps. `result` is the role of a tool's result."""
    out = [Step("system", record["system"], at="/system")] if "system" in record else []
    for at, message, meta in messages_of(record):
        role, body = message["role"], f"{at}/content"
        group = [
            Step(key, message[key], at=f"{at}/{key}")
            for key in ("context", "think")
            if key in message
        ]
        if role == "assistant_toolcall":
            group.append(Step("call", message["arguments"], message["name"], at=f"{at}/arguments"))
        elif role == result:
            group.append(Step("result", message["content"], message["name"], at=body))
        elif role == "assistant":
            group += answer(message, at)
        else:
            group.append(Step(role, message["content"], at=body))
        out += first_carries(group, meta)
    return Conversation(tuple(out), extras_of(record, "system"))


def message_of(step: Step, result: str) -> dict[str, Any]:
    """Returns the message of a step that is one. `result` is the role of a tool's result."""
    if step.kind == "call":
        return {"role": "assistant_toolcall", "name": step.name, "arguments": step.value}
    if step.kind == "result":
        return {"role": result, "name": step.name, "content": step.value}
    return {"role": "assistant" if step.kind == "text" else step.kind, "content": step.value}
