"""Turns records of GabGPT into steps and back."""

from __future__ import annotations

from typing import Any

from mypt_convert.bridges.steps import (
    Conversation,
    Step,
    answers,
    extras_of,
    first_carries,
    messages_of,
    metadata_of,
)
from mypt_spec.table import TokenTable

KINDS = frozenset({"user", "think", "text"})
EXTRAS: frozenset[str] = frozenset()
HAS_IDS = PARALLEL = NEEDS_IDS = False


def steps(record: dict[str, Any], table: TokenTable) -> Conversation:
    out: list[Step] = []
    for at, message, meta in messages_of(record):
        group = [Step("think", message["think"], at=f"{at}/think")] if "think" in message else []
        group.append(
            Step(
                "user" if message["role"] == "user" else "text",
                message["content"],
                at=f"{at}/content",
            )
        )
        out += first_carries(group, meta)
    return Conversation(tuple(out), extras_of(record))


def record(conversation: Conversation, table: TokenTable) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    think: dict[str, Any] = {}  # of the next answer, with its metadata
    final = answers(conversation.steps)
    for i, step in enumerate(conversation.steps):
        meta = metadata_of(step.meta)
        if step.kind == "user":
            messages.append({"role": "user", "content": step.value} | meta)
            think = {}
        elif step.kind == "call":
            think = {}  # it was about the call
        elif step.kind == "think" and not think:
            think = {"think": step.value} | meta
        elif i in final:
            messages.append({"role": "assistant", "content": step.value} | think | meta)
            think = {}
    return {"messages": messages}
