"""Turns records of MyPT, and of its phase 3B, into steps and back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mypt_convert.bridges.steps import Bridge, Conversation, Step, answers, metadata_of, value_step
from mypt_spec.adapters.base import Reader, spelled
from mypt_spec.episode import Part, Place
from mypt_spec.table import TokenTable

_WAITING = ("context", "think")  # keys of a message, whose steps come before it


@dataclass
class ToolChat(Bridge):
    """The bridge of records with a message for each call and each result.

    `result` is the role of a result. `carriers` are the steps whose messages may hold a context or
    a thought.
    """

    KINDS: frozenset[str]
    result: str
    carriers: frozenset[str]
    HEADS: tuple[str, ...] = ("system",)

    def message_steps(self, message: dict[str, Any], at: str, table: TokenTable) -> list[Step]:
        role, body = message["role"], f"{at}/content"
        out = [value_step(key, message, key, at) for key in _WAITING if key in message]
        if role == "assistant_toolcall":
            return [*out, Step("call", message["arguments"], message["name"], at=f"{at}/arguments")]
        if role == self.result:
            return [*out, Step("result", message["content"], message["name"], at=body)]
        if role == "assistant" and "cite" in self.KINDS:
            return [*out, *_answer(message, at, table)]
        return [*out, value_step("text" if role == "assistant" else role, message, "content", at)]

    def record(self, conversation: Conversation, table: TokenTable) -> dict[str, Any]:
        out: dict[str, Any] = {}
        messages: list[dict[str, Any]] = []
        waiting: dict[str, Any] = {}  # context or think of a later message, and its metadata
        final = answers(conversation.steps)
        for i, step in enumerate(conversation.steps):
            meta = metadata_of(step.meta)
            last = messages[-1] if messages else {}
            if step.kind not in self.KINDS:
                continue
            if step.kind == "system" and not out:
                out["system"] = step.value
            elif step.kind in _WAITING and step.kind not in waiting:
                waiting |= {step.kind: step.value} | meta
            elif step.kind in ("user", "assistant_context", "call", "result") or i in final:
                carried, waiting = (waiting, {}) if step.kind in self.carriers else ({}, waiting)
                messages.append(self._message(step) | carried | meta)
            elif step.kind == "cite" and last.get("role") == "assistant" and "cite" not in last:
                last |= _cited(last["content"], step, conversation.steps[:i], table)
        return out | {"messages": messages}

    def _message(self, step: Step) -> dict[str, Any]:
        if step.kind == "call":
            return {"role": "assistant_toolcall", "name": step.name, "arguments": step.value}
        if step.kind == "result":
            return {"role": self.result, "name": step.name, "content": step.value}
        return {"role": "assistant" if step.kind == "text" else step.kind, "content": step.value}


def _answer(message: dict[str, Any], at: str, table: TokenTable) -> list[Step]:
    """Returns the text, then its citations; the name of one inside the text is its offset there."""
    text, cites = "", []
    for part in Reader(table, []).inline(message["content"], Place(f"{at}/content"), "cite"):
        if part.kind == "text":
            text += part.text
        else:
            cites.append(Step("cite", part.text, str(len(text)), at=f"{at}/content"))
    if "cite" in message:
        cites.append(value_step("cite", message, "cite", at))
    return [Step("text", text, at=f"{at}/content"), *cites]


def _cited(content: str, step: Step, before: Sequence[Step], table: TokenTable) -> dict[str, str]:
    """Returns the changed key of an answer with one more citation; earlier ones are in it."""
    if not step.name:
        return {"cite": step.value}
    text = next(s.value for s in reversed(before) if s.kind == "text")
    at = len(content) - (len(text) - int(step.name))
    return {"content": content[:at] + spelled([Part("cite", step.value)], table) + content[at:]}


_CARRIERS = frozenset({"user", "assistant_context", "text", "call", "result"})
BRIDGE = ToolChat(_CARRIERS | {"system", "context", "think", "cite"}, "toolresult", _CARRIERS)
