"""Legal records of praxis, and a second serialiser, written from the document's words alone."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.support.build import message, user
from tests.support.maker import Maker, Record

NAME = "praxis"


def record(random: Random, clean: bool = True) -> Record:
    make = Maker(random, NAME, clean=clean)
    messages = [message("system", make.text())] if make.one_in(2) else []
    for _ in make.some(1, 3):
        messages += [message("developer", make.text()) for _ in make.some(0, 1)]
        said = {"contents": _contents(make)} if make.one_in(2) else {"content": make.text()}
        messages += [user(make.text()), {"role": "assistant"} | said]
    if make.one_in(4):
        messages.append({"role": "eos"})
    return make.note({"messages": messages}, language=("en", "pt-BR", "zh-Hant-TW"))


def _contents(make: Maker) -> list[Record]:
    """Returns texts and calls in any order; a text may be a line break alone next to a call."""

    def texts() -> list[Record]:
        if make.one_in(2):
            return []
        return [{"type": "text", "text": make.choice((make.text(), "\n", " \n"))}]

    out: list[Record] = []
    for _ in make.some(1, 3):
        name = make.choice(("calc", "get_tools", "a-b", make.string() or "n"))
        call = {"type": "toolcall", "name": name, "arguments": make.arguments(most=3)}
        out += [*texts(), call, {"type": "toolresult", "content": make.text(empty=5)}]
    return out + texts()


def naive_text(record: Record) -> str:
    """The text of a record whose JSON spells no tag:

    `[BOS]role`, the content, `[SEP]`, each on its line.
    """
    out = ""
    for one in record["messages"]:
        if one["role"] == "eos":
            out = out.removesuffix("\n[SEP]\n") + "[EOS]"
            continue
        content = one["content"] if "content" in one else "".join(map(_item, one["contents"]))
        out += f"[BOS]{one['role']}\n{content}\n[SEP]\n"
    return out


def _item(item: dict[str, Any]) -> str:
    if item["type"] == "toolcall":
        body = json.dumps(
            {"name": item["name"], "arguments": item["arguments"]}, ensure_ascii=False
        )
        return f"<tin>\n{body}\n</tin>"
    return item["text"] if item["type"] == "text" else f"<tout>{item['content']}</tout>"
