"""Turns records of MyPT's phase 3B into steps and back."""

from __future__ import annotations

from typing import Any

from mypt_convert.bridges.steps import Conversation, Step, answers, metadata_of
from mypt_convert.bridges.tool_chat import conversation_of, message_of
from mypt_spec.table import TokenTable

KINDS = frozenset({"system", "context", "user", "text", "call", "result"})
EXTRAS: frozenset[str] = frozenset()
HAS_IDS = PARALLEL = NEEDS_IDS = False
_RESULT = "tool_result"


def steps(record: dict[str, Any], table: TokenTable) -> Conversation:
    return conversation_of(record, _RESULT, _answer)


def _answer(message: dict[str, Any], at: str) -> list[Step]:
    return [Step("text", message["content"], at=f"{at}/content")]


def record(conversation: Conversation, table: TokenTable) -> dict[str, Any]:
    out: dict[str, Any] = {}
    messages: list[dict[str, Any]] = []
    context: dict[str, Any] = {}  # of the next user message, with its metadata
    final = answers(conversation.steps)
    for i, step in enumerate(conversation.steps):
        meta = metadata_of(step.meta)
        if step.kind == "system" and not out:
            out["system"] = step.value
        elif step.kind == "context" and not context:
            context = {"context": step.value} | meta
        elif step.kind in ("user", "call", "result") or i in final:
            about_user = context if step.kind == "user" else {}
            messages.append(message_of(step, _RESULT) | about_user | meta)
            context = {} if step.kind == "user" else context
    return out | {"messages": messages}
