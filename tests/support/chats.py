"""Chats in OpenAI's shape, as servers hand them to a chat template, with the Episode of each."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from hypothesis import strategies as st

import mypt_spec
from mypt_convert.engine import Converter
from mypt_spec import Dialect, Episode
from mypt_spec.adapters.declared import Declared
from mypt_spec.adapters.message_shape import THOUGHTS
from mypt_spec.adapters.messages import Messages
from mypt_spec.episode import events_of
from mypt_spec.table import LISTS, TEXT
from mypt_train.export.chat_layout import chat_layout
from mypt_train.export.tokenizer_file import tag_pieces
from tests.dialects import qwen3
from tests.dialects.usf_omega import tools
from tests.support.chat_shapes import chat
from tests.support.dialects import ALL, DIALECTS
from tests.support.examples import either
from tests.support.maker import Maker, Record, drawn
from tests.support.strategies import legal

# `nox -s exports` names more examples, and takes all dialects.
EXAMPLES = int(os.environ.get("EXPORT_EXAMPLES", either(4, 8)))
NAMES = ALL if "EXPORT_EXAMPLES" in os.environ else DIALECTS
WITH_TOOLS = replace(qwen3.SHAPE, options=())


@cache
def _converter(name: str) -> Converter:
    return Converter("openai", name)


def read_by_messages(d: Dialect) -> bool:
    """Whether the dialect's own records are what servers send."""
    return isinstance(d.adapter, Messages | Declared)


def chats(name: str, clean: bool = True) -> st.SearchStrategy[tuple[Record, Episode] | None]:
    """Records of messages and tools with their Episodes; None where the dialect cannot hold one."""
    return drawn(lambda random: _chat(random, name, clean))


def _chat(random: Random, name: str, clean: bool) -> tuple[Record, Episode] | None:
    d = mypt_spec.dialect(name)
    if read_by_messages(d):
        record = shown(legal(random, name, clean=clean))
        if not writes_tools(d):
            record.pop("tools", None)
        episode = d.read(record)[0]
    else:
        make = Maker(random, name, clean=clean)
        record = _fitting(d, shown(chat(make, WITH_TOOLS)))
        if writes_tools(d):
            calls = [c for m in record["messages"] for c in m.get("tool_calls", ())]
            known = {c["function"]["name"]: {"name": c["function"]["name"]} for c in calls}
            known |= {t["function"]["name"]: t["function"] for t in tools(make)} | known
            defined = [{"type": "function", "function": f} for f in known.values()]
            record |= make.choice(({}, {"tools": defined}, {"tools": defined}))
        converted = _converter(name).record(record)
        if converted.record is None or converted.losses:
            return None
        episode = d.read(converted.record)[0]
    if episode is None or any(f.severity == "error" for f in d.validate(episode)):
        return None
    return record, episode


def writes_tools(d: Dialect) -> bool:
    """Whether a template can write definitions of tools in the format's words."""
    layout = chat_layout(d)
    path = layout.paths.get("tools")
    bodies = ("tool_list", "tool_lines", "signatures", "namespace")
    return bool(layout.told) or (path is not None and d.table.openers[path[-1]].body in bodies)


def shown(record: Record) -> Record:
    """A record as a server hands it on: arguments are objects, and nothing is metadata."""
    messages = []
    for message in record["messages"]:
        kept = {k: v for k, v in message.items() if k[:1] != "_" and k != "weight"}
        if kept.get("tool_calls"):
            calls = [dict(call) for call in kept["tool_calls"]]
            for call in calls:
                function = dict(call["function"])
                if isinstance(function["arguments"], str):
                    function["arguments"] = json.loads(function["arguments"])
                call["function"] = function
            kept["tool_calls"] = calls
        messages.append(kept)
    tools = record.get("tools")
    tools = json.loads(tools) if isinstance(tools, str) else tools
    return {"messages": messages} | ({"tools": tools} if tools else {})


def _fitting(d: Dialect, record: Record) -> Record:
    """A chat without what a dialect has no place for; calls one at a time, if that is its way."""
    paths = chat_layout(d).paths
    together = "call" in paths and d.table.openers[paths["call"][-1]].body in LISTS
    out: list[Record] = [{"role": "system", "content": "S"}] if "system" in paths else []
    for message in record["messages"]:
        kept = {k: v for k, v in message.items() if "thought" in paths or k not in THOUGHTS}
        if kept["role"] == "system":
            continue
        second = out[-1]["role"] == "tool" and not together if out else False
        if kept["role"] == "tool" and ("call" not in paths or second):
            continue
        if kept.get("tool_calls"):
            if "call" not in paths:
                continue
            kept["tool_calls"] = kept["tool_calls"][: None if together else 1]
            if d.name.startswith("mypt"):
                kept.pop("content", None)  # no text may be beside a call
        if kept["role"] == "tool" and d.table.openers[paths["result"][-1]].body == "json":
            kept["content"] = "r" + kept["content"]  # JSON text becomes its value in conversion
        out.append(kept)
    return {"messages": out}


def joins(d: Dialect, episode: Episode) -> bool:
    """Whether a text begins or ends as the plain text of some tag does.

    A tokenizer sees no tag before it, so it cuts the text there, too. docs/templates.md says so.
    """
    patterns = [re.compile(p.replace(r"\z", r"\Z")) for p in tag_pieces(d)]
    texts = [e.text for e in events_of(episode.messages, d.table) if e.terminal == TEXT]
    return any(p.search(text) for p in patterns for text in texts)


def cut_short(d: Dialect, episode: Episode) -> bool:
    """Whether a trained run ends with a text whose last character is several tokens.

    transformers marks only the first of these. docs/templates.md says so.
    """
    found = d.segments(episode)
    follows = [*found[1:], None]
    return any(
        s.event.terminal == TEXT
        and s.loss
        and (then is None or not then.loss)
        and len(d.tokenizer.encode(s.event.text[-1])) > 1
        for s, then in zip(found, follows, strict=True)
    )


def spells(d: Dialect, reserved: tuple[str, ...], record: Record) -> bool:
    """Whether a string of a chat spells a tag or another special id."""
    tags = [
        *d.table.tags,
        *reserved,
        *(t.shown.split("...")[0].strip() for t in d.table.plain_tags),
    ]
    return any(tag in text for text in _strings(record["messages"]) for tag in tags)


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [s for k, v in value.items() for s in (*_strings(v), k) if k != "tool_calls" or v]
    return [s for v in value for s in _strings(v)] if isinstance(value, list) else []
