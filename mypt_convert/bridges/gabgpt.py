"""Turns records of GabGPT into steps and back."""

from typing import Any

from mypt_convert.bridges.steps import (
    Bridge,
    Conversation,
    Step,
    answers,
    metadata_of,
    value_step,
)
from mypt_spec.table import TokenTable


class GabGPT(Bridge):
    KINDS = frozenset({"user", "think", "text"})

    def message_steps(self, message: dict[str, Any], at: str, table: TokenTable) -> list[Step]:
        kind = "user" if message["role"] == "user" else "text"
        keys = {"think": "think", "content": kind}
        return [value_step(kind, message, key, at) for key, kind in keys.items() if key in message]

    def record(self, conversation: Conversation, table: TokenTable) -> dict[str, Any]:
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


BRIDGE = GabGPT()
