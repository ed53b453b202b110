"""Turns records that a `records.toml` describes into steps and back: messages of three roles."""

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

KINDS = frozenset({"system", "user", "text"})
EXTRAS: frozenset[str] = frozenset()
HAS_IDS = PARALLEL = False


def steps(record: dict[str, Any], table: TokenTable) -> Conversation:
    out: list[Step] = []
    for at, message, meta in messages_of(record):
        kind = "text" if message["role"] == "assistant" else message["role"]
        out += first_carries([Step(kind, message["content"], at=f"{at}/content")], meta)
    return Conversation(tuple(out), extras_of(record))


def record(conversation: Conversation, table: TokenTable) -> dict[str, Any]:
    final = answers(conversation.steps)
    return {
        "messages": [
            {"role": "assistant" if i in final else step.kind, "content": step.value}
            | kept(step.meta)
            for i, step in enumerate(conversation.steps)
            if i in final or step.kind in ("system", "user")
        ]
    }
