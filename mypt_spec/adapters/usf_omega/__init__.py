"""Turns USF Omega's JSONL record into messages and back (grammar/usf_omega/SPEC.md, section 6).

A record states its answers in several ways, which `record` brings into one form. It has flags that
are not in the text: they are an Episode's metadata, and `flags` checks the text against them.
"""

import json
from typing import Any

from mypt_spec.adapters.base import Adapter, Reader
from mypt_spec.adapters.splitter import Splitter, splitter
from mypt_spec.adapters.usf_omega.flags import validate
from mypt_spec.adapters.usf_omega.record import FLAGS, INSTRUCTIONS, RECORD, Answer, check
from mypt_spec.bodies.strict_json import DefinitionsError
from mypt_spec.bodies.typescript import read_namespace, write_namespace
from mypt_spec.episode import Episode, Message, Part, Place
from mypt_spec.findings import Finding
from mypt_spec.record_schema import metadata as notes
from mypt_spec.rules import Context
from mypt_spec.table import TokenTable


class UsfOmega(Adapter):
    """Knows the JSON of USF Omega's records."""

    SCHEMA = RECORD

    def read(self, record: dict[str, Any], reader: Reader) -> list[Message]:
        """Returns the messages of a record in the form that `record.check` makes."""
        out = [Message("bos")]
        if "model_identity" in record:
            out.append(_block("system", record["model_identity"], "/model_identity"))
        messages = record.get("messages", [])
        lines = [
            {key: m[key] for key in ("role", "content")}
            | {"pointer": f"/messages/{i}/content", "notes": notes(m)}
            for i, m in enumerate(messages)
            if m["role"] in INSTRUCTIONS
        ]
        if lines:
            text = "\n".join(line["content"] for line in lines)
            out.append(_block("developer", text, lines[0]["pointer"], {"lines": lines}))
        if "tools" in record or "functions" in record:
            key = "tools" if "tools" in record else "functions"
            meta = {"key": key, "bare": record[f"{key} without wrapper"]}
            text = write_namespace(record[key], reader.table.literals)
            out.append(_block("functions", text, f"/{key}", meta))
        for i, message in enumerate(messages):
            at, role, meta = f"/messages/{i}", message["role"], notes(message)
            if role == "assistant":
                out.append(message["answer"].message(f"{at}/role", reader.table, meta))
            elif role in ("user", "tool"):
                kinds = {"tool_call_id": "tool_call_id", "name": "tool_name", "content": "text"}
                parts = tuple(
                    Part(kind, message[key], at=Place(f"{at}/{key}"))
                    for key, kind in kinds.items()
                    if key in message
                )
                out.append(Message(role, parts, at=Place(f"{at}/role"), meta=meta))
        if "answer" in record:
            last: Answer = record["answer"]
            out.append(last.message(last.pointer, reader.table, notes(record.get("chosen", {}))))
        if out[-1].role == "assistant":
            out.append(Message("eos", at=out[-1].at))
        return out

    def write(self, episode: Episode, table: TokenTable) -> dict[str, Any]:
        """Returns the canonical record of an Episode, its flags included."""
        record: dict[str, Any] = {}
        messages: list[dict[str, Any]] = []
        tools: dict[str, Any] = {}
        for message in episode.messages:
            if message.role == "system":
                record["model_identity"] = message.text
            elif message.role == "developer":
                messages += _instructions(message)
            elif message.role == "functions":
                defined = read_namespace(message.text)
                tools = {"tools": defined}
                if message.meta.get("key") == "functions":
                    tools = {"functions": [tool["function"] for tool in defined]}
            elif message.role == "assistant":
                messages.append(_assistant(message) | message.meta)
            elif message.role in ("user", "tool"):
                ids = {p.kind: p.text for p in message.parts if p.kind != "text"}
                ids |= {"name": ids.pop("tool_name")} if "tool_name" in ids else {}
                content = {"content": message.text}
                messages.append({"role": message.role} | ids | content | message.meta)
        flags = dict(episode.meta)
        if any(p.kind == "self_reflection" for m in episode.messages for p in m.parts):
            flags.setdefault("self_reflection_enabled", True)
        record["messages"] = messages
        if "rejected" in flags and messages and messages[-1]["role"] == "assistant":
            record["chosen"] = messages.pop()
        rejected = {k: flags[k] for k in FLAGS[:1] if k in flags}
        return record | rejected | tools | {k: flags[k] for k in FLAGS if k in flags}

    def check(self, record: Any) -> tuple[dict[str, Any] | None, list[Finding], str]:
        """Returns a record in which each answer has one form, the findings, and ""."""
        return check(record)

    def metadata(self, record: dict[str, Any]) -> dict[str, Any]:
        """Returns the flags and the metadata of a record."""
        return {k: record[k] for k in FLAGS if k in record} | notes(record)

    def tools(self, episode: Episode) -> list[dict[str, Any]]:
        texts = [m.text for m in episode.messages if m.role == "functions"]
        try:
            return [tool for text in texts for tool in read_namespace(text)]
        except DefinitionsError:  # a rule says so
            return []

    def validate(self, context: Context, findings: list[Finding]) -> list[Finding]:
        """Returns the findings, completed by what flags, tools and ids say about the text."""
        return validate(context, findings)

    def preference(self, record: dict[str, Any]) -> tuple[dict[str, Any] | None, bool | None]:
        """Returns (the record with its answers exchanged, its label); None for what it lacks."""
        if "rejected" not in record:
            return None, record.get("label")
        exchanged = {"chosen": record["rejected"], "rejected": record["chosen"]}
        return record | exchanged, record.get("label")


def _block(role: str, text: str, at: str, meta: dict[str, Any] | None = None) -> Message:
    place = Place(at)
    return Message(role, (Part("text", text, at=place),), at=place, meta=meta or {})


def _instructions(message: Message) -> list[dict[str, Any]]:
    """Returns the messages of a developer block; one, if it was read from a text."""
    lines = message.meta.get("lines", [])
    if "\n".join(line["content"] for line in lines) != message.text or not lines:
        return [{"role": "developer", "content": message.text}]
    return [{"role": line["role"], "content": line["content"]} | line["notes"] for line in lines]


_KEYS = {"message": "content", "tool_calls": "tool_calls", "self_reflection": "self_reflection"}


def _assistant(message: Message) -> dict[str, Any]:
    """Returns an assistant message: with plain fields in the order of its parts, or `contents`."""
    kinds = [part.kind for part in message.parts]
    values = [json.loads(p.text) if p.kind == "tool_calls" else p.text for p in message.parts]
    both = [*zip(kinds, values, strict=True)]
    if kinds == [kind for kind in _KEYS if kind in kinds]:
        return {"role": "assistant"} | {_KEYS[kind]: value for kind, value in both}
    items = [("text" if kind == "message" else kind, value) for kind, value in both]
    return {"role": "assistant", "contents": [{"type": kind, kind: v} for kind, v in items]}


@splitter.register(UsfOmega)
def _(adapter: UsfOmega, opt_out: str = "") -> Splitter:
    from mypt_spec.adapters.usf_omega.skeleton import RecordSplitter  # which needs msgspec

    return RecordSplitter(opt_out)


ADAPTER = UsfOmega()
