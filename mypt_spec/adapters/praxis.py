"""Turns Praxis's JSON record into messages and back (grammar/praxis/SPEC.md, section 7)."""

import json
from typing import Any

from mypt_spec.adapters.base import CHAT_ROLES, Adapter, Reader
from mypt_spec.adapters.tool_chat import CALL, MAYBE
from mypt_spec.episode import Episode, Message, Part, Place
from mypt_spec.findings import Finding
from mypt_spec.record_schema import ITEMS, LANGUAGE, LIST, STRING, Field, RecordSchema, metadata
from mypt_spec.table import TokenTable

_TEXT = {"content": Field(STRING)}
_KINDS = {"text": {"text": Field(STRING)}, "toolcall": CALL, "toolresult": _TEXT}
_ALIASES = {"tool_call": "toolcall", "tool_result": "toolresult"}
_ITEMS = RecordSchema({}, _KINDS, aliases=_ALIASES, tag="type", noun="item", metadata=False)
_REPLY = {"content": MAYBE, "contents": Field(ITEMS, required=False, items=_ITEMS)}


# A list, because a role of a record may be any value, and not all can be in a set.
_ASSISTANT = ["assistant", *(name for name, role in CHAT_ROLES.items() if role == "assistant")]


class Praxis(Adapter):
    """Knows the JSON of Praxis's records."""

    SCHEMA = RecordSchema(
        top={"messages": Field(LIST), "language": Field(LANGUAGE, required=False)},
        roles={"system": _TEXT, "developer": _TEXT, "user": _TEXT, "assistant": _REPLY, "eos": {}},
        aliases=CHAT_ROLES,
    )

    def check(self, record: Any) -> tuple[dict[str, Any] | None, list[Finding], str]:
        """Checks as `check_record` does, and that each assistant message has one of two keys."""
        checked, findings, lifted = super().check(record)
        messages = record.get("messages") if isinstance(record, dict) else None
        for i, message in enumerate(messages if isinstance(messages, list) else []):
            if isinstance(message, dict) and message.get("role") in _ASSISTANT:
                at, content_keys = f"/messages/{i}", {"content", "contents"} & set(message)
                if not content_keys:
                    text = 'the assistant message has neither "content" nor "contents"'
                    findings.append(Finding("MYP102", text, at))
                if len(content_keys) == 2:
                    text = 'an assistant message has "content" or "contents", not both'
                    hint, at = "keep the one that is meant", f"{at}/contents"
                    findings.append(Finding("MYP334", text, at, on_key=True, help=hint))
                checked = checked if len(content_keys) == 1 else None
        return checked, findings, lifted

    def read(self, record: dict[str, Any], reader: Reader) -> list[Message]:
        """Returns the messages of a record that `check` let through."""
        out = []
        for i, message in enumerate(record["messages"]):
            at = reader.at(i, "content")
            parts = [Part("text", message["content"], at=at)] if "content" in message else []
            for n, item in enumerate(message.get("contents", ())):
                parts.append(_part(item, reader.at(i, f"contents/{n}").pointer, reader))
            if "contents" in message and not parts:
                parts = [Part("text", "", at=reader.at(i, "contents"))]
            at, meta = reader.at(i, "role"), metadata(message)
            out.append(Message(message["role"], tuple(parts), at=at, meta=meta))
        return out

    def write(self, episode: Episode, table: TokenTable) -> dict[str, Any]:
        """Returns the canonical record of an Episode; `contents` are only for calls and results."""
        return {"messages": [_write_message(m) | m.meta for m in episode.messages]}


def _part(item: dict[str, Any], at: str, reader: Reader) -> Part:
    if item["type"] == "toolcall":
        return reader.call("tin", item["name"], item["arguments"], Place(at), Place(f"{at}/name"))
    if item["type"] == "toolresult":
        return Part("tout", item["content"], at=Place(f"{at}/content"))
    if not item["text"]:
        text = "an empty text says nothing and does not come back"
        reader.findings.append(Finding("MYP314", text, f"{at}/text"))
    return Part("text", item["text"], at=Place(f"{at}/text"))


def _write_message(message: Message) -> dict[str, Any]:
    if message.role == "eos":
        return {"role": "eos"}
    if all(part.kind == "text" for part in message.parts):
        return {"role": message.role, "content": message.text}
    parts = [part for part in message.parts if part.text or part.kind != "text"]
    return {"role": message.role, "contents": [_write_part(part) for part in parts]}


def _write_part(part: Part) -> dict[str, Any]:
    if part.kind == "tin":
        call = json.loads(part.text)
        return {"type": "toolcall", "name": call["name"], "arguments": call["arguments"]}
    if part.kind == "text":
        return {"type": "text", "text": part.text}
    return {"type": "toolresult", "content": part.text}


ADAPTER = Praxis()
