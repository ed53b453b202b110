"""Turns records of USF Omega into steps and back.

Results are text there; their names and ids are optional.
"""

from __future__ import annotations

from typing import Any

from mypt_convert.bridges.steps import (
    IDENTITY,
    UNNAMED,
    Conversation,
    Step,
    call_of,
    calls_of,
    extras_of,
    first_carries,
    messages_of,
    metadata_of,
    result_of,
    result_text,
    wait,
)
from mypt_spec.adapters.waiting import Waiting
from mypt_spec.table import TokenTable

KINDS = frozenset(
    {IDENTITY, "system", "developer", "user", "think", "text", "call", "result", "reflection"}
)
EXTRAS = frozenset({
    "tools", "functions", "rejected", "response_schema", "response_format", "json_mode",
    "search_enabled",
    "citations_enabled", "self_reflection_enabled", "reasoning_effort", "thinking_budget", "label",
})  # fmt: skip
HAS_IDS = PARALLEL = True
NEEDS_IDS = False
_ITEMS = {"reasoning": "think", "text": "text", "self_reflection": "reflection"}
_TYPES = {kind: name for name, kind in _ITEMS.items()}


def steps(record: dict[str, Any], table: TokenTable) -> Conversation:
    out = [Step(IDENTITY, record[IDENTITY], at=f"/{IDENTITY}")] if IDENTITY in record else []
    extras = extras_of(record, "chosen", IDENTITY)
    messages = list(messages_of(record))
    if "chosen" in record:
        messages.append(("/chosen", record["chosen"], metadata_of(record["chosen"])))
    results = [message for _, message, _ in messages if message["role"] == "tool"]
    if results and not any("name" in message for message in results):
        extras[UNNAMED] = True
    waiting: Waiting[Step] = Waiting()
    for at, message, meta in messages:
        if message["role"] == "assistant":
            group = _assistant(message, at)
            wait(group, waiting)
        elif message["role"] == "tool":
            group = [result_of(message, at, waiting)]
            if "name" not in message and UNNAMED not in extras:
                meta = meta | {"name": None}
        else:
            group = [Step(message["role"], message["content"], at=f"{at}/content")]
        out += first_carries(group, meta)
    return Conversation(tuple(out), extras)


def _assistant(message: dict[str, Any], at: str) -> list[Step]:
    out: list[Step] = []
    keys = [
        ("text", "content"),
        ("tool_calls", "tool_calls"),
        ("self_reflection", "self_reflection"),
    ]
    items = [(kind, message[key], f"{at}/{key}") for kind, key in keys if key in message]
    items += [
        (item["type"], item[item["type"]], f"{at}/contents/{i}/{item['type']}")
        for i, item in enumerate(message.get("contents", ()))
    ]
    for kind, value, here in items:
        if kind != "tool_calls":
            out.append(Step(_ITEMS[kind], value, at=here))
            continue
        apart = {"tool_calls": "a list of their own"} if out and out[-1].kind == "call" else {}
        out += first_carries(calls_of(value, here), apart)
    return out


def record(conversation: Conversation, table: TokenTable) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    head: dict[str, Any] = {}
    unnamed = conversation.extras.get(UNNAMED) is True
    if unnamed:
        del conversation.extras[UNNAMED]  # results without names say it
    for step in conversation.steps:
        if step.kind == IDENTITY and not head:
            head = {IDENTITY: step.value}
        elif step.kind in ("system", "developer", "user"):
            messages.append({"role": step.kind, "content": step.value} | metadata_of(step.meta))
        elif step.kind == "result":
            name = {} if unnamed or "name" in step.meta else {"name": step.name}
            ids = {"tool_call_id": step.id} if step.id and "tool_call_id" not in step.meta else {}
            messages.append(
                {"role": "tool"}
                | ids
                | name
                | {"content": result_text(step.value)}
                | metadata_of(step.meta)
            )
        elif step.kind == "call" or step.kind in _TYPES:
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "contents": []} | metadata_of(step.meta))
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
