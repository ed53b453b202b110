"""Turns records of USF Omega into steps and back.

Results are text there; their names and ids are optional.
"""

from typing import Any

from mypt_convert.bridges.steps import (
    IDENTITY,
    UNNAMED,
    Bridge,
    Conversation,
    Step,
    call_of,
    calls_of,
    first_carries,
    metadata_of,
    tool_message,
    value_step,
)
from mypt_spec.table import TokenTable

_ITEMS = {"reasoning": "think", "text": "text", "self_reflection": "reflection"}
_TYPES = {kind: name for name, kind in _ITEMS.items()}
_KEYS = {"content": "text", "tool_calls": "tool_calls", "self_reflection": "self_reflection"}


class USFOmega(Bridge):
    KINDS = frozenset(
        {IDENTITY, "system", "developer", "user", "think", "text", "call", "result", "reflection"}
    )
    EXTRAS = frozenset({
        "tools", "functions", "rejected", "response_schema", "response_format", "json_mode",
        "search_enabled", "citations_enabled", "self_reflection_enabled", "reasoning_effort",
        "thinking_budget", "label",
    })  # fmt: skip
    HAS_IDS = PARALLEL = True
    HEADS = (IDENTITY,)
    LAST = ("chosen",)

    def message_steps(self, message: dict[str, Any], at: str, table: TokenTable) -> list[Step]:
        if message["role"] != "assistant":
            return [value_step(message["role"], message, "content", at)]
        items = [(kind, message, key, at) for key, kind in _KEYS.items() if key in message]
        items += [
            (item["type"], item, item["type"], f"{at}/contents/{i}")
            for i, item in enumerate(message.get("contents", ()))
        ]
        out: list[Step] = []
        for kind, where, key, here in items:
            if kind != "tool_calls":
                out.append(value_step(_ITEMS[kind], where, key, here))
                continue
            meta = {"tool_calls": "a list of their own"} if out and out[-1].kind == "call" else {}
            out += first_carries(calls_of(where[key], f"{here}/{key}"), meta)
        return out

    def record(self, conversation: Conversation, table: TokenTable) -> dict[str, Any]:
        messages: list[dict[str, Any]] = []
        head: dict[str, Any] = {}
        unnamed = conversation.extras.get(UNNAMED) is True
        if unnamed:
            del conversation.extras[UNNAMED]  # results without names say it
        for step in conversation.steps:
            meta = metadata_of(step.meta)
            if step.kind == IDENTITY and not head:
                head = {IDENTITY: step.value}
            elif step.kind in ("system", "developer", "user"):
                messages.append({"role": step.kind, "content": step.value} | meta)
            elif step.kind == "result":
                messages.append(tool_message(step, unnamed=unnamed))
            elif step.kind == "call" or step.kind in _TYPES:
                if not messages or messages[-1]["role"] != "assistant":
                    messages.append({"role": "assistant", "contents": []} | meta)
                _say(step, messages[-1]["contents"])
        if "rejected" in conversation.extras and messages and messages[-1]["role"] == "assistant":
            return head | {"messages": messages[:-1], "chosen": messages[-1]}
        return head | {"messages": messages}


def _say(step: Step, items: list[dict[str, Any]]) -> None:
    """Adds a step to an assistant message, if it has a place there.

    Thinking comes first, and a reflection after something said.
    """
    if step.kind == "call":
        call = call_of(step)
        if items and items[-1]["type"] == "tool_calls" and "tool_calls" not in step.meta:
            items[-1]["tool_calls"].append(call)
        else:
            items.append({"type": "tool_calls", "tool_calls": [call]})
        return
    previous = items[-1]["type"] if items else ""
    if (step.kind == "think" and items) or (
        step.kind == "reflection" and previous not in ("text", "tool_calls")
    ):
        return
    items.append({"type": _TYPES[step.kind], _TYPES[step.kind]: step.value})


BRIDGE = USFOmega()
