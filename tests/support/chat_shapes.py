"""Make chats in the shape that most models take: messages with calls, thoughts, tools and options."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any

from tests.support.build import message, tool, user
from tests.support.maker import Maker, Record

TOOL_NAMES = ("f", "get_it")
THOUGHTS = ("reasoning_content", "thinking", "reasoning")
_SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What the chats of a dialect may have.

    `thoughts` are the keys of a thought, `calls` the most calls in a message, `ids` how their ids
    are numbered, which calls may lack unless they are `identified`. `names` are those of tools,
    `keys` those of arguments (any text without them), which may be JSON text where they may be
    `quoted`. `beside` a call may be a text. `tools` makes definitions. The values of `options` are
    those named, or any text.
    """

    name: str
    heads: tuple[str, ...] = ("system",)
    thoughts: tuple[str, ...] = ()
    calls: int = 0
    ids: str = ""
    identified: bool = False
    names: tuple[str, ...] = TOOL_NAMES
    keys: tuple[str, ...] = ()
    quoted: bool = False
    beside: bool = True
    empty_answers: bool = True
    result_names: bool = False
    tools: Callable[[Maker], list[Record]] | None = None
    options: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    def record(self, random: Random, clean: bool = True) -> Record:
        """Returns a chat of the dialect; it may still have findings, where two texts join."""
        return chat(Maker(random, self.name, clean=clean), self)


def chat(make: Maker, shape: Shape) -> Record:
    """Returns a chat that has what a shape may have."""
    heads = [message(role, make.text(empty=9)) for role in shape.heads if make.one_in(2)]
    ids = (shape.ids.format(i) for i in count(make.random.randrange(6))) if shape.ids and (shape.identified or make.one_in(2)) else None  # fmt: skip
    messages = list(heads)
    for _ in make.some(1, 3):
        messages.append(user(make.text(empty=9)))
        for _ in range(make.choice((0, 0, 1, 2)) if shape.calls else 0):
            messages += _calls(make, shape, ids)
        answer = make.text(empty=9 * shape.empty_answers)
        messages.append({"role": "assistant", **_thought(make, shape), "content": answer})
    if shape.calls and make.one_in(5):
        messages += [user(make.text()), _calls(make, shape, ids)[0]]
    record: Record = {"messages": messages}
    if shape.tools is not None and make.one_in(2):
        record["tools"] = shape.tools(make)
    make.note(record)
    if "developer" in shape.heads and "tools" in record:  # beside tools, an empty one is lost
        record["messages"] = [m for m in messages if m["role"] != "developer" or m["content"]]
    if shape.options and len(heads) < 2 and make.one_in(5):
        options = [
            (k, make.choice(values) if values else make.text()) for k, values in shape.options
        ]
        record["chat_template_kwargs"] = dict(make.sample(options, 1))
    return record


def _thought(make: Maker, shape: Shape) -> Record:
    if not shape.thoughts or make.one_in(2):
        return {}
    return {make.choice(shape.thoughts): make.text(empty=9)}


def _calls(make: Maker, shape: Shape, ids: Any) -> list[Record]:
    """Returns a message that calls tools, and the results."""
    calls, results = [], []
    for _ in make.some(1, shape.calls):
        arguments = make.arguments(shape.keys)
        quoted = shape.quoted and make.one_in(2)
        function = {"name": make.choice(shape.names), "arguments": json.dumps(arguments) if quoted else arguments}  # fmt: skip
        ident = next(ids) if ids else None
        calls.append(({"id": ident} if ids else {}) | {"type": "function", "function": function})
        named = shape.result_names or make.one_in(3)
        results.append(tool(
            make.text(empty=9),
            **({"tool_call_id": ident} if ids else {}), **({"name": function["name"]} if named else {}),
        ))  # fmt: skip
    content: Record = {}
    if shape.beside:
        content = make.choice(({}, {"content": None}, {"content": make.text()}))
    return [{"role": "assistant", **_thought(make, shape), **content, "tool_calls": calls}, *results]  # fmt: skip


# --- definitions of tools


def definition(name: str, about: str = "What it is for.", parameters: Any = _SCHEMA) -> Record:
    """Returns the definition of a tool."""
    function = {"name": name, "description": about, "parameters": parameters}
    return {"type": "function", "function": function}


def plain_tools(_: Maker) -> list[Record]:
    """Returns the same definitions each time."""
    return [definition(name) for name in TOOL_NAMES]


def described_tools(make: Maker) -> list[Record]:
    """Returns definitions with texts of any kind."""
    schema: Record = {"type": "object", "properties": {}}
    return [definition(name, make.string(), schema) for name in TOOL_NAMES]


def typed_tools(make: Maker) -> list[Record]:
    """Returns definitions with schemas of each kind; of clean ones, TypeScript says all."""
    out, lossy = [], not make.clean
    for name in make.sample(["f", "get_it", "workspace.search"], 1, 2):
        function: Record = {"name": name}
        if make.one_in(2):
            function["description"] = _about(make)
        if make.one_in(2):
            function["parameters"] = _object(make, 2, lossy)
        out.append({"type": "function", "function": function})
    return out


def _about(make: Maker) -> str:
    return make.text().replace("\r", "").strip("\n") or "d"


def _object(make: Maker, depth: int, lossy: bool) -> Record:
    names = make.sample(["city", "n", "unit_2", "foo-bar"], 0, 3)
    fields = {name: _schema(make, depth, lossy) for name in names}
    return {"type": "object", "properties": fields, "required": names[:1]}


def _schema(make: Maker, depth: int, lossy: bool, *, bare: bool = False) -> Record:
    kinds = ["string", "number", "boolean", "array", ["string", "null"], "enum", "any"]
    kinds += ["integer"] * lossy + (["object", "items", *(["oneOf"] * lossy)] if depth else [])
    kind = make.choice(kinds)
    schemas: dict[str, Callable[[], Record]] = {
        "enum": lambda: {"type": "string", "enum": ["a", "b c"]},
        "any": dict,
        "object": lambda: _object(make, depth - 1, lossy),
        "items": lambda: {"type": "array", "items": _schema(make, depth - 1, lossy, bare=True)},
        "oneOf": lambda: {"oneOf": [_schema(make, depth - 1, lossy, bare=True) for _ in "12"]},
    }
    build = schemas.get(str(kind))
    out = build() if build else {"type": kind}
    if lossy and make.one_in(5):
        out |= {"nullable": make.one_in(2), "minimum": 1}
    if not bare and make.one_in(2):
        out["description"] = _about(make)
    if not bare and lossy and make.one_in(5):
        out |= {"title": _about(make), "default": make.choice([None, True, 3, 1e-5, 1e20, "celsius", [1, "a"]])}  # fmt: skip
    return out
