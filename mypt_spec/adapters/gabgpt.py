"""Turns GabGPT's JSONL record into messages and back (grammar/gabgpt/SPEC.md, section 5)."""

from typing import Any

from mypt_spec.adapters.base import CHAT_ROLES, Adapter, Reader
from mypt_spec.adapters.tool_chat import MAYBE, TEXT
from mypt_spec.episode import Episode, Message, Part, Place
from mypt_spec.record_schema import LANGUAGE, LIST, Field, RecordSchema, metadata
from mypt_spec.table import TokenTable


class GabGPT(Adapter):
    """Knows the JSON of GabGPT's records."""

    SCHEMA = RecordSchema(
        top={"messages": Field(LIST), "language": Field(LANGUAGE, required=False)},
        roles={"user": {"content": TEXT}, "assistant": {"content": TEXT, "think": MAYBE}},
        aliases=CHAT_ROLES,
    )

    def read(self, record: dict[str, Any], reader: Reader) -> list[Message]:
        """Returns the messages of a record; each assistant message is followed by an end."""
        out = []
        for i, message in enumerate(record["messages"]):
            at, body, meta = reader.at(i, "role"), reader.at(i, "content"), metadata(message)
            if message["role"] == "user":
                parts = _text(message["content"], body)
                out.append(Message("user", parts, at=at if parts else body, meta=meta))
                continue
            if "think" in message:
                place = reader.at(i, "think")
                out.append(Message("think", _text(message["think"], place), at=place))
            out += [
                Message("assistant", _text(message["content"], body), at=at, meta=meta),
                Message("end", at=at),
            ]
        return out

    def write(self, episode: Episode, table: TokenTable) -> dict[str, Any]:
        messages = []
        think: dict[str, str] = {}
        for message in episode.messages:
            if message.role == "think":
                think = {"think": message.text}
            elif message.role != "end":
                content = {"role": message.role, "content": message.text}
                messages.append(content | think | message.meta)
                think = {}
        return {"messages": messages}


def _text(text: str, at: Place) -> tuple[Part, ...]:
    """Returns the parts of a segment. An empty one holds no part, as when its text is read."""
    return (Part("text", text, at=at),) if text else ()


ADAPTER = GabGPT()
