"""Turns records of MyPT into steps and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mypt_convert.bridges.steps import Conversation, Step, answers, metadata_of
from mypt_convert.bridges.tool_chat import conversation_of, message_of
from mypt_spec.adapters.base import Reader, spelled
from mypt_spec.episode import Part, Place
from mypt_spec.table import TokenTable

KINDS = frozenset(
    {"system", "context", "user", "assistant_context", "think", "text", "cite", "call", "result"}
)
EXTRAS: frozenset[str] = frozenset()
HAS_IDS = PARALLEL = NEEDS_IDS = False
_RESULT = "toolresult"


def steps(record: dict[str, Any], table: TokenTable) -> Conversation:
    return conversation_of(record, _RESULT, lambda message, at: _answer(message, at, table))


def _answer(message: dict[str, Any], at: str, table: TokenTable) -> list[Step]:
    """Returns the text, then its citations; the name of one inside the text is its offset there."""
    text, cites = "", []
    for part in Reader(table, []).inline(message["content"], Place(f"{at}/content"), "cite"):
        if part.kind == "text":
            text += part.text
        else:
            cites.append(Step("cite", part.text, str(len(text)), at=f"{at}/content"))
    if "cite" in message:
        cites.append(Step("cite", message["cite"], at=f"{at}/cite"))
    return [Step("text", text, at=f"{at}/content"), *cites]


def record(conversation: Conversation, table: TokenTable) -> dict[str, Any]:
    out: dict[str, Any] = {}
    messages: list[dict[str, Any]] = []
    waiting: dict[str, Any] = {}  # context or think of the next message, and its metadata
    final = answers(conversation.steps)
    for i, step in enumerate(conversation.steps):
        meta = metadata_of(step.meta)
        last = messages[-1] if messages else {}
        if step.kind == "system" and not out:
            out["system"] = step.value
        elif step.kind in ("context", "think") and step.kind not in waiting:
            waiting |= {step.kind: step.value} | meta
        elif step.kind in ("user", "assistant_context", "call", "result") or i in final:
            messages.append(message_of(step, _RESULT) | waiting | meta)
            waiting = {}
        elif step.kind == "cite" and last.get("role") == "assistant" and "cite" not in last:
            last |= _cited(last["content"], step, conversation.steps[:i], table)
    return out | {"messages": messages}


def _cited(content: str, step: Step, before: Sequence[Step], table: TokenTable) -> dict[str, str]:
    """Returns the changed key of an answer with one more citation; earlier ones are in it."""
    if not step.name:
        return {"cite": step.value}
    text = next(s.value for s in reversed(before) if s.kind == "text")
    at = len(content) - (len(text) - int(step.name))
    return {"content": content[:at] + spelled([Part("cite", step.value)], table) + content[at:]}
