"""States the shape of a USF Omega record: its keys, roles, flags and the values that they take."""

from __future__ import annotations

from mypt_spec.record_schema import (
    BOOLEAN,
    INTEGER,
    LANGUAGE,
    LIST,
    OBJECT,
    STRING,
    Field,
    RecordSchema,
)

_TEXT = Field(STRING)
_MAYBE = {
    kind: Field(kind, required=False) for kind in (STRING, LIST, OBJECT, BOOLEAN, INTEGER, LANGUAGE)
}
ANSWER = {
    "reasoning": _MAYBE[STRING],
    "contents": _MAYBE[LIST],
    "tool_calls": _MAYBE[LIST],
    "self_reflection": _MAYBE[STRING],
}
# Not in the text: kept in an Episode's metadata, in this order in a canonical record.
FLAGS = (
    "rejected", "response_schema", "response_format", "json_mode", "search_enabled",
    "citations_enabled",
    "self_reflection_enabled", "reasoning_effort", "thinking_budget", "label",
)  # fmt: skip
RECORD = RecordSchema(
    top={
        "model_identity": _MAYBE[STRING], "messages": _MAYBE[LIST], "tools": _MAYBE[LIST],
        "functions": _MAYBE[LIST],
        "assistant": _MAYBE[STRING], **ANSWER, "chosen": _MAYBE[OBJECT], "rejected": _MAYBE[OBJECT],
        "response_schema": _MAYBE[OBJECT], "response_format": _MAYBE[OBJECT],
        "json_mode": _MAYBE[BOOLEAN],
        "search_enabled": _MAYBE[BOOLEAN], "citations_enabled": _MAYBE[BOOLEAN],
        "self_reflection_enabled": _MAYBE[BOOLEAN],
        "reasoning_effort": _MAYBE[STRING], "thinking_budget": _MAYBE[INTEGER],
        "label": _MAYBE[BOOLEAN], "language": _MAYBE[LANGUAGE],
    },
    roles={
        "system": {"content": _TEXT}, "developer": {"content": _TEXT}, "user": {"content": _TEXT},
        "assistant": {"content": _MAYBE[STRING], **ANSWER},
        "tool": {"tool_call_id": _MAYBE[STRING], "name": _MAYBE[STRING], "content": _TEXT},
    },
    aliases={"function": "tool", "tool_result": "tool", "toolresult": "tool"},
)  # fmt: skip
INSTRUCTIONS = ("system", "developer")
LEVELS = ("none", "minimal", "low", "medium", "high", "max")
FORMATS = ("text", "json_object", "json_schema")
ITEMS = {"reasoning": STRING, "text": STRING, "tool_calls": LIST, "self_reflection": STRING}
