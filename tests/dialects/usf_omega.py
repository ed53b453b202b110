"""Legal records of USF Omega, definitions of functions, and JSON Schemas."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.support.build import call, message, user
from tests.support.maker import Maker, Record

NAME = "usf-omega"
IDENTIFIERS = ["search", "calculate", "get_weather", "a-b", "x.y", "größe", "$f", "type", "string", 'q"uote']  # fmt: skip
_WORDS = ["string", "number", "integer", "boolean", "null", "object", "array"]


def schema(make: Maker, depth: int = 2) -> Any:
    """Returns a JSON Schema that anything fits, in what TypeScript can say and what it cannot."""
    kind = make.random.randrange(10 if depth else 7)
    if kind == 7:
        return {"type": "array", "items": schema(make, depth - 1)}
    if kind == 8:
        return {"anyOf": [schema(make, depth - 1) for _ in make.some(1, 2)]}
    if kind == 9:
        return _object(make, depth - 1)
    words = make.sample(_WORDS, 1, 3)
    choices = [make.string() for _ in make.some(1, 3)]
    leaves: list[Any] = [
        {}, {"type": words[0]}, {"type": words}, {"type": "string", "enum": choices}, {"enum": choices},
        {"type": "integer", "enum": [1, 2], "minimum": 0}, make.one_in(2),
    ]  # fmt: skip
    if isinstance(leaves[kind], bool):
        return leaves[kind]
    notes = [("description", make.string()), ("title", make.string()), ("default", make.value(1)), ("x-*/", "*/")]  # fmt: skip
    return leaves[kind] | dict(make.sample(notes))


def _object(make: Maker, depth: int = 2) -> Record:
    fields = {_name(make): schema(make, depth) for _ in make.some(0, 3)}
    required = {} if make.one_in(2) else {"required": make.sample([*fields, "other"], 0, 3)}
    return {"type": "object", "properties": fields, **required}


def _name(make: Maker) -> str:
    return make.string() if make.one_in(2) else make.choice(IDENTIFIERS)


def tools(make: Maker) -> list[Record]:
    """Returns definitions of functions under different names."""
    out = []
    for name in dict.fromkeys(_name(make) or "f" for _ in make.some(1, 3)):
        function: Record = {"name": name}
        if make.one_in(2):
            function["description"] = make.string()
        if make.one_in(2):
            function["parameters"] = _object(make)
        if make.one_in(5):
            function["strict"] = make.one_in(2)
        out.append({"type": "function", "function": function})
    return out


class _Calls:
    """Makes calls that fit the definitions of a record."""

    def __init__(self, make: Maker, defined: list[Record]) -> None:
        functions = [tool["function"] for tool in defined]
        free = [f["name"] for f in functions if not f.get("parameters", {}).get("required")]
        self.make, self.defined = make, bool(defined)
        self.possible, self.names = not defined or bool(free), free or IDENTIFIERS

    def some(self, most: int, *, identified: bool = True) -> list[Record]:
        arguments = [{} if self.defined else self.make.arguments() for _ in self.make.some(1, most)]
        return [
            ({"id": f"c{i}"} if identified or len(arguments) > 1 else {})
            | call(self.make.choice(self.names), given)
            for i, given in enumerate(arguments)
        ]


def record(random: Random, clean: bool = True) -> Record:
    """Returns a record in any of the training shapes."""
    make = Maker(random, NAME, clean=clean)
    out: Record = {"model_identity": make.text()} if make.one_in(2) else {}
    messages = [message(make.choice(("system", "developer")), make.text()) for _ in make.some(0, 2)]
    defined = tools(make) if make.one_in(2) else []
    if defined:
        bare = {"functions": [tool["function"] for tool in defined]}
        out |= bare if make.one_in(2) else {"tools": defined}
    calls = _Calls(make, defined)
    for _ in make.some(0, 2):
        messages.append(user(make.text()))
        if calls.possible and make.one_in(2):
            messages += _exchange(make, calls)
        messages.append({"role": "assistant", **_answer(make)})
    messages.append(user(make.text()))
    last = _answer(make, calls if calls.possible else None)
    shape = make.choice(("messages", "messages", "top", "preference", "prompt"))
    mixed = any(m["role"] == "assistant" for m in messages)
    if shape == "top" and not (clean and mixed):
        out |= {"assistant" if key == "content" else key: value for key, value in last.items()}
    elif shape == "preference":
        out |= {
            "chosen": {"role": "assistant", **last},
            "rejected": {"role": "assistant", "content": make.text() + "?"},
        }
    elif shape != "prompt" or clean:
        messages.append({"role": "assistant", **last})
    return _flags(make, make.note(out | {"messages": messages}, language=("en", "pt-BR")))


def _flags(make: Maker, record: Record) -> Record:
    spelled = json.dumps(record)
    efforts = ["minimal", "low", "medium", "high", "max"]
    flags = [
        ("response_format", {"type": "text"}), ("search_enabled", make.one_in(2)), ("citations_enabled", make.one_in(2)),
        ("json_mode", False), ("thinking_budget", make.random.randint(2000, 4000)), ("label", make.one_in(2)),
        ("reasoning_effort", make.choice(efforts + ["none"] * ('"reasoning"' not in spelled))),
    ]  # fmt: skip
    reflects = {"self_reflection_enabled": True} if '"self_reflection"' in spelled else {}
    return record | dict(make.sample(flags)) | reflects


def _exchange(make: Maker, calls: _Calls) -> list[Record]:
    """Returns an assistant's message that calls, and the results, in any order."""
    asked = calls.some(3, identified=make.one_in(2))
    optional = {key: make.text() for key in ("content", "self_reflection") if make.one_in(2)}
    results = [
        {"role": "tool", **({"tool_call_id": one["id"]} if "id" in one else {}),
         **({"name": one["function"]["name"]} if make.one_in(2) else {}), "content": make.text()}
        for one in make.sample(asked, len(asked))
    ]  # fmt: skip
    return [{"role": "assistant", "tool_calls": asked, **optional}, *results]


def _answer(make: Maker, calls: _Calls | None = None) -> Record:
    """Returns what an assistant's message says, as plain fields or as `contents`."""
    asked = (
        [{"type": "tool_calls", "tool_calls": calls.some(2)}] if calls and make.one_in(2) else []
    )
    if make.one_in(2):
        optional = {k: make.text() for k in ("self_reflection", "reasoning") if make.one_in(3)}
        plain = {"tool_calls": asked[0]["tool_calls"]} if asked else {}
        return {"content": make.text(), **plain, **optional}
    items = [{"type": "reasoning", "reasoning": make.text()}] if make.one_in(2) else []
    for _ in make.some(1, 3):
        one_of_them = asked.pop() if asked and make.one_in(2) else None
        items.append(one_of_them or {"type": "text", "text": make.text()})
        if make.one_in(2):
            items.append({"type": "self_reflection", "self_reflection": make.text()})
    return {"contents": items}
