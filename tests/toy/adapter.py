"""Records of the toy: a list of questions and answers."""

from typing import Any

from mypt_spec.adapters.base import Adapter, Reader
from mypt_spec.episode import Episode, Message, Part
from mypt_spec.record_schema import LIST, STRING, Field, RecordSchema, metadata
from mypt_spec.table import TokenTable

TEXT, WORK = Field(STRING), Field(STRING, required=False)


class Toy(Adapter):
    SCHEMA = RecordSchema(
        top={"messages": Field(LIST)},
        roles={"ask": {"content": TEXT}, "answer": {"content": TEXT, "work": WORK}},
    )

    def read(self, record: dict[str, Any], reader: Reader) -> list[Message]:
        out = []
        for i, message in enumerate(record["messages"]):
            keys = {"work": "work", "content": "text"}
            parts = [Part(keys[k], message[k], at=reader.at(i, k)) for k in keys if k in message]
            at, role = reader.at(i, "role"), message["role"]
            out.append(Message(role, tuple(parts), at=at, meta=metadata(message)))
            out += [Message("stop", at=at)] if role == "answer" else []
        return out

    def write(self, episode: Episode, table: TokenTable) -> dict[str, Any]:
        out = []
        for message in [message for message in episode.messages if message.role != "stop"]:
            work = {part.kind: part.text for part in message.parts if part.kind == "work"}
            out.append({"role": message.role, "content": message.text} | work | message.meta)
        return {"messages": out}


ADAPTER = Toy()
