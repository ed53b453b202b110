"""Turns the JSONL record of MyPT's phase 3B into messages and back.

Implements section 7 of grammar/mypt_3b/SPEC.md.
"""

import json
from typing import Any

from mypt_spec.adapters.base import Adapter, Reader
from mypt_spec.adapters.tool_chat import CALL, MAYBE, TEXT, tool_chat
from mypt_spec.bodies.strict_json import canonical
from mypt_spec.episode import Episode, Message, Part
from mypt_spec.record_schema import metadata
from mypt_spec.table import TokenTable


class Phase3B(Adapter):
    """Knows the JSON of phase 3B's records."""

    SCHEMA = tool_chat(
        "tool_result", system=MAYBE, assistant={"content": TEXT}, call=CALL, extra_roles={}
    )

    def read(self, record: dict[str, Any], reader: Reader) -> list[Message]:
        """Returns the messages of a record; the context of a user message is a block before it."""
        out = []
        if "system" in record:
            at = reader.top("system")
            out.append(Message("system", (Part("text", record["system"], at=at),), at=at))
        for i, message in enumerate(record["messages"]):
            at, body, meta = reader.at(i, "role"), reader.at(i, "content"), metadata(message)
            attrs, name_at = (("name", message.get("name", "")),), reader.at(i, "name")
            if message["role"] == "assistant_toolcall":
                text = canonical(message["arguments"], reader.table.literals)
                call = Part("toolcall", text, attrs, reader.at(i, "arguments"), name_at)
                out.append(Message("assistant", (call,), at=at, meta=meta))
            elif message["role"] == "tool_result":
                result = reader.json(message["content"], body)
                out.append(Message("toolresult", (result,), attrs, at, meta, name_at))
            else:
                if "context" in message:
                    place = reader.at(i, "context")
                    context = Part("text", message["context"], at=place)
                    out.append(Message("context", (context,), at=place))
                content = Part("text", message["content"], at=body)
                out.append(Message(message["role"], (content,), at=at, meta=meta))
        return out

    def write(self, episode: Episode, table: TokenTable) -> dict[str, Any]:
        record: dict[str, Any] = {}
        messages = []
        context: dict[str, Any] = {}
        for message in episode.messages:
            if message.role == "system":
                record["system"] = message.text
            elif message.role == "context":
                context = {"context": message.text}
            else:
                messages.append(_write_message(message) | context | message.meta)
                context = {}
        return record | {"messages": messages}


def _write_message(message: Message) -> dict[str, Any]:
    calls = [part for part in message.parts if part.kind == "toolcall"]
    if calls:
        name, arguments = dict(calls[0].attrs).get("name", ""), json.loads(calls[0].text)
        return {"role": "assistant_toolcall", "name": name, "arguments": arguments}
    if message.role == "toolresult":
        name = dict(message.attrs).get("name", "")
        return {"role": "tool_result", "name": name, "content": json.loads(message.text)}
    return {"role": message.role, "content": message.text}


ADAPTER = Phase3B()
