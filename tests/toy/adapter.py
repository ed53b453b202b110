"""Records of the toy: a list of questions and answers."""

from typing import Any

from mypt_spec.adapters.base import Reader
from mypt_spec.episode import Episode, Message, Part
from mypt_spec.record_schema import LIST, STRING, Field, RecordSchema, metadata
from mypt_spec.table import TokenTable

SCHEMA = RecordSchema(
    top={"messages": Field(LIST)},
    roles={
        "ask": {"content": Field(STRING)},
        "answer": {"content": Field(STRING), "work": Field(STRING, required=False)},
    },
)


def read(record: dict[str, Any], reader: Reader) -> list[Message]:
    out = []
    for i, message in enumerate(record["messages"]):
        parts = (
            [Part("work", message["work"], at=reader.at(i, "work"))] if "work" in message else []
        )
        parts.append(Part("text", message["content"], at=reader.at(i, "content")))
        out.append(
            Message(message["role"], tuple(parts), at=reader.at(i, "role"), meta=metadata(message))
        )
        out += [Message("stop", at=reader.at(i, "role"))] if message["role"] == "answer" else []
    return out


def write(episode: Episode, table: TokenTable) -> dict[str, Any]:
    messages = []
    for message in episode.messages:
        if message.role != "stop":
            work = {part.kind: part.text for part in message.parts if part.kind == "work"}
            messages.append({"role": message.role, "content": message.text} | work | message.meta)
    return {"messages": messages}
