"""Turns records into steps and back by their schema, such as one that a `records.toml` declares.

The roles are known by their names or their other names: system, user, assistant; a thought by the
name of its key. All else is a step of its own kind, which no other format has a place for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mypt_convert.bridges.steps import (
    Bridge,
    Conversation,
    Step,
    answers,
    first_carries,
    metadata_of,
)
from mypt_spec.adapters.message_shape import THOUGHTS
from mypt_spec.record_schema import RecordSchema
from mypt_spec.table import TokenTable

_NAMES = {
    "system": ("system",),
    "developer": ("developer",),
    "user": ("user", "human"),
    "text": ("assistant", "gpt"),
}
_THOUGHTS = (*THOUGHTS, "think", "thought", "thoughts")


@dataclass
class OwnBridge(Bridge):
    """The bridge of a schema; see `Bridge`. `roles` are its roles by kind of step."""

    schema: RecordSchema
    roles: dict[str, str]
    thought: str
    KINDS: frozenset[str]

    @classmethod
    def of(cls, schema: RecordSchema) -> OwnBridge:
        roles = {}
        for kind, names in _NAMES.items():
            canonical = (schema.aliases.get(name, name) for name in names)
            if role := next((r for r in canonical if schema.text in schema.roles.get(r, ())), ""):
                roles[kind] = role
        fields = schema.roles.get(roles.get("text", ""), {})
        thought = next((key for key in _THOUGHTS if key in fields), "")
        return cls(schema, roles, thought, frozenset({*roles, *(["think"] if thought else [])}))

    def steps(self, record: dict[str, Any], table: TokenTable) -> Conversation:
        schema = self.schema
        kinds = {role: kind for kind, role in self.roles.items()}
        out: list[Step] = []
        for i, message in enumerate(record[schema.messages]):
            kind, meta = kinds.get(message[schema.tag], message[schema.tag]), metadata_of(message)
            kind_of_key = {schema.text: kind} | ({self.thought: "think"} if kind == "text" else {})
            group = [
                Step(kind_of_key.get(key, key), value, at=f"/{schema.messages}/{i}/{key}")
                for key, value in sorted(message.items(), key=lambda item: item[0] != self.thought)
                if key != schema.tag and key not in meta
            ]
            out += first_carries(group, meta)
        return Conversation(tuple(out), {k: v for k, v in record.items() if k != schema.messages})

    def record(self, conversation: Conversation, table: TokenTable) -> dict[str, Any]:
        schema, final = self.schema, answers(conversation.steps)
        messages: list[dict[str, Any]] = []
        before: dict[str, Any] = {}  # the thought of the answer that follows
        for i, step in enumerate(conversation.steps):
            if step.kind == "think" and self.thought and not before:
                before = {self.thought: step.value} | metadata_of(step.meta)
            elif step.kind in self.roles and (step.kind != "text" or i in final):
                before = before if step.kind == "text" else {}
                head = {schema.tag: self.roles[step.kind]} | before
                messages.append(head | {schema.text: step.value} | metadata_of(step.meta))
                before = {}
            elif step.kind == "call":
                before = {}  # it was about the call
        return {schema.messages: messages}
