"""Praxis for the property tests: legal records, and a second serialiser, written from the document's
words alone.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from hypothesis import strategies as st

import mypt_spec
from mypt_spec.damage.cut_tags import fragment, inner_tags
from tests.support.strategies import Record, any_text, clean_text, json_values

NAME = "praxis"


@cache
def text(*, clean: bool = True) -> st.SearchStrategy[str]:
    """Content that spells no tag, and no piece of one."""
    d = mypt_spec.dialect(NAME)
    tags = inner_tags(d.table, d.automaton)
    return clean_text(NAME, blank=not clean).filter(lambda t: fragment(t, tags) is None)


@cache
def strings(*, clean: bool = True) -> st.SearchStrategy[str]:
    return clean_text(NAME) | st.just("") if clean else any_text(NAME)


@st.composite
def calls(draw: st.DrawFn, clean: bool) -> list[Record]:
    inner = strings(clean=clean)
    arguments = draw(st.dictionaries(inner, json_values(inner), max_size=3))
    name = draw(st.sampled_from(["calc", "get_tools", "a-b"]) | inner.filter(bool))
    result = draw(text(clean=clean) | st.just(""))
    return [
        {"type": "toolcall", "name": name, "arguments": arguments},
        {"type": "toolresult", "content": result},
    ]


@st.composite
def contents(draw: st.DrawFn, clean: bool) -> list[Record]:
    """Texts and calls in any order; a text may be a line break alone next to a call."""
    piece = text(clean=clean) | st.sampled_from(["\n", " \n"])
    out: list[Record] = []
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            out.append({"type": "text", "text": draw(piece)})
        out += draw(calls(clean))
    if draw(st.booleans()):
        out.append({"type": "text", "text": draw(piece)})
    return out


@st.composite
def records(draw: st.DrawFn, clean: bool = True) -> Record:
    """Legal records; `clean` ones are meant to have no finding at all."""
    content = text(clean=clean)
    messages: list[Record] = []
    if draw(st.booleans()):
        messages.append({"role": "system", "content": draw(content)})
    for _ in range(draw(st.integers(1, 3))):
        messages += [
            {"role": "developer", "content": draw(content)} for _ in range(draw(st.integers(0, 1)))
        ]
        messages.append({"role": "user", "content": draw(content)})
        said: Record = (
            {"content": draw(content)}
            if draw(st.booleans())
            else {"contents": draw(contents(clean))}
        )
        messages.append({"role": "assistant"} | said)
    if draw(st.integers(0, 3)) == 0:
        messages.append({"role": "eos"})
    for message in messages:
        if draw(st.integers(0, 9)) == 0:
            message["_note"] = draw(json_values(strings(clean=clean)))
    record: Record = {"messages": messages}
    if draw(st.integers(0, 3)) == 0:
        record["language"] = draw(st.sampled_from(["en", "pt-BR", "zh-Hant-TW"]))
    if draw(st.integers(0, 3)) == 0:
        record["_meta"] = draw(json_values(strings(clean=clean)))
    return record


def naive_text(record: Record) -> str:
    """The text of a record whose JSON spells no tag:

    `[BOS]role`, the content, `[SEP]`, each on its line.
    """
    out = ""
    for message in record["messages"]:
        if message["role"] == "eos":
            out = out.removesuffix("\n[SEP]\n") + "[EOS]"
            continue
        said = (
            message["content"]
            if "content" in message
            else "".join(_item(item) for item in message["contents"])
        )
        out += f"[BOS]{message['role']}\n{said}\n[SEP]\n"
    return out


def _item(item: dict[str, Any]) -> str:
    if item["type"] == "toolcall":
        body = json.dumps(
            {"name": item["name"], "arguments": item["arguments"]}, ensure_ascii=False
        )
        return f"<tin>\n{body}\n</tin>"
    return item["text"] if item["type"] == "text" else f"<tout>{item['content']}</tout>"
