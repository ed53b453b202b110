"""Turns MyPT's JSONL record into messages and back (grammar/mypt/SPEC.md, section 7).

The records of its phase 3B are read here, too. There, a context is a block before that of the user,
and calls and results have the name of the tool in their tags.
"""

import json
from typing import Any

from mypt_spec.adapters.base import Adapter, Reader, call_of, spelled
from mypt_spec.adapters.tool_chat import CALL, MAYBE, TEXT, tool_chat
from mypt_spec.episode import Attrs, Episode, Message, Part, merge_text
from mypt_spec.findings import Finding
from mypt_spec.record_schema import STRING, Field, metadata
from mypt_spec.table import TokenTable

_NESTED = {"context": "user_context", "think": "think"}
_CONTEXT = "context"


class MyPT(Adapter):
    """Knows the JSON of MyPT's records."""

    SCHEMA = tool_chat(
        "toolresult",
        system=Field(STRING, required=False, inline=("toolcall",)),
        assistant={"content": Field(STRING, inline=("cite",)), "think": MAYBE, "cite": MAYBE},
        call=CALL | {"think": MAYBE},
        extra_roles={"assistant_context": {"content": TEXT}},
    )
    _RESULT = "toolresult"

    def read(self, record: dict[str, Any], reader: Reader) -> list[Message]:
        """Returns the messages of a record; each answer is followed by an end of turn.

        A result that has another name than its call is a finding (MYP312).
        """
        out = []
        if "system" in record:
            at = reader.top("system")
            parts = reader.inline(record["system"], at, *self.SCHEMA.top["system"].inline)
            out.append(Message("system", tuple(parts), at=at))
        called: str | None = None
        openers = reader.table.openers
        for i, message in enumerate(record["messages"]):
            role = message["role"]
            parts = [
                Part(kind, message[key], at=reader.at(i, key))
                for key, kind in _NESTED.items()
                if key in message and kind in openers
            ]
            at, body, name_at = (reader.at(i, key) for key in ("role", "content", "name"))
            kind, name = role, message.get("name")
            attrs: Attrs = ()
            if _CONTEXT in message and _CONTEXT in openers:
                place = reader.at(i, _CONTEXT)
                context = Part("text", message[_CONTEXT], at=place)
                out.append(Message(_CONTEXT, (context,), at=place))
            if role == "assistant":
                inline = self.SCHEMA.roles[role]["content"].inline
                parts += reader.inline(message["content"], body, *inline)
                if "cite" in message:
                    cite = Part("cite", message["cite"], at=reader.at(i, "cite"))
                    parts += [Part("text", " ", at=body), cite]
            elif role == "assistant_toolcall":
                kind, values = "assistant", reader.at(i, "arguments")
                parts.append(reader.call("toolcall", name, message["arguments"], values, name_at))
            elif role == self._RESULT:
                kind = "toolresult"
                parts.append(reader.json(message["content"], body))
                if openers[kind].patterns:  # a rule compares the names in tags
                    attrs = (("name", name),)
                elif called is not None and name != called:
                    text = f'the result is of "{name}", the call before it is of "{called}"'
                    hint = f'write "{called}"'
                    reader.findings.append(Finding("MYP312", text, *name_at, help=hint))
            else:
                parts.append(Part("text", message["content"], at=body))
            called = name if role == "assistant_toolcall" else None
            out.append(
                Message(
                    kind, tuple(parts), attrs, at, metadata(message), name_at if attrs else None
                )
            )
            if role == "assistant" and "eot" in reader.table.marks:
                out.append(Message("eot", at=at))
        return out

    def write(self, episode: Episode, table: TokenTable) -> dict[str, Any]:
        """Returns the canonical record of an Episode. The name of a result is that of its call."""
        record: dict[str, Any] = {}
        messages = []
        called, context = "", dict[str, str]()
        for message in episode.messages:
            if message.role == "system":
                inline = self.SCHEMA.top["system"].inline
                record["system"] = spelled(message.parts, table, *inline)
            elif message.role == _CONTEXT:
                context = {_CONTEXT: message.text}
            elif message.role != "eot":
                written = self._written(message, called, table)
                called = written.get("name", "")
                messages.append(written | context | message.meta)
                context = {}
        return record | {"messages": messages}

    def _written(self, message: Message, called: str, table: TokenTable) -> dict[str, Any]:
        nested = {p.kind: p.text for p in message.parts if p.kind in _NESTED.values()}
        parts = [p for p in message.parts if p.kind not in nested]
        cite: dict[str, str] = {}
        out: dict[str, Any]
        if message.role == "toolresult":
            name = dict(message.attrs).get("name", called)
            return {"role": self._RESULT, "name": name, "content": json.loads(message.text)}
        if parts and parts[0].kind == "toolcall":
            name, arguments = call_of(parts[0])
            out = {"role": "assistant_toolcall", "name": name, "arguments": arguments}
        elif message.role == "assistant":
            parts, cite = _split_cite(parts)
            inline = self.SCHEMA.roles["assistant"]["content"].inline
            out = {"role": "assistant", "content": spelled(parts, table, *inline)}
        else:
            out = {"role": message.role, "content": message.text}
        return out | {key: nested[kind] for key, kind in _NESTED.items() if kind in nested} | cite


def _split_cite(parts: list[Part]) -> tuple[list[Part], dict[str, str]]:
    """Returns the parts before a closing cite, and the cite as the record's "cite".

    That is a cite at the end which one space separates from the text before it; any other stays
    inline.
    """
    if [part.kind for part in parts[-2:]] != ["text", "cite"] or parts[-2].text[-1:] != " ":
        return parts, {}
    before = merge_text([*parts[:-2], Part("text", parts[-2].text[:-1])])
    if before[-1:] == (Part("text", ""),):
        return parts, {}
    return list(before), {"cite": parts[-1].text}


ADAPTER = MyPT()
