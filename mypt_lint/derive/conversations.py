"""Makes conversations by chance, to prove a format on: records of OpenAI's shape.

>>> conversation("chat", 7) == conversation("chat", 7)
True
>>> [message["role"] for message in conversation("chat", 7)["messages"]][-1]
'assistant'
"""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from mypt_spec import Dialect
from mypt_spec.bodies.json_body import counting
from mypt_spec.compiled.toml import load

LEVELS = ("chat", "thoughts", "tools", "all")
_WORDS, _BETWEEN, _AROUND = load(Path(__file__).with_name("words.toml")).values()
# Types of arguments, and values: where calls are tags, nothing else says which type a value has.
_VALUES: list[tuple[Any, tuple[Any, ...]]] = [
    ("string", ("a b", 'say "hi"', "漢字")), (["string", "null"], (None, "a b")),
    ("boolean", (True, False)), ("number", (2.5, 17, -3)), ("array", ([1, "x", None], [])),
    ("object", ({"k": ["\n", {}]}, {})),
]  # fmt: skip


def conversation(level: str, seed: int, blanks: float = 0.03) -> dict[str, Any]:
    """Returns a record of a level, which ends with an answer; `blanks` is their share of texts."""
    chance = Random(f"{level} {seed}")
    choice, thinks = chance.choice, level in ("thoughts", "all")

    def text() -> str:
        if chance.random() < blanks:
            return choice(("", " ", "\n"))
        out = choice(_WORDS)
        for _ in range(choice((0, 1, 1, 2, 3, 5))):
            out += choice(_BETWEEN) + choice(_WORDS)
        return f"{choice(_AROUND)}{out}{choice(_AROUND)}"

    def answer() -> dict[str, Any]:
        thought = {"reasoning_content": text()} if thinks and chance.random() < 0.6 else {}
        return {"role": "assistant", "content": text()} | thought

    def tool(name: str) -> dict[str, Any]:
        keys = chance.sample(("city", "n", "unit", "x_y"), choice((0, 1, 2)))
        properties = {k: {"type": choice(_VALUES)[0], "description": choice(_WORDS)} for k in keys}
        parameters: dict[str, Any] = {"type": "object", "properties": properties}
        parameters |= {"required": keys[:1]}
        parameters |= {"additionalProperties": False} if keys[1:] else {}
        function = {"name": name, "description": text(), "parameters": parameters}
        return {"type": "function", "function": function}

    def step() -> list[dict[str, Any]]:
        message, results = answer(), []
        message["content"] = message["content"] if chance.random() < 0.4 else ""
        if not message["content"] and len(messages) % 2:
            del message["content"]
        message["tool_calls"] = []
        for i in range(choice((1, 1, 1, 2, 3))):
            function, ident = choice(tools)["function"], f"call{len(messages):03d}{i:02d}"
            fields = function["parameters"]["properties"].items()
            values = {k: next(v for t, v in _VALUES if t == field["type"]) for k, field in fields}
            some = {k: choice(v) for k, v in values.items() if chance.random() < 0.8}
            call = {"name": function["name"], "arguments": some}
            message["tool_calls"].append({"id": ident, "type": "function", "function": call})
            results.append({"role": "tool", "tool_call_id": ident, "content": text()})
        return [message, *results]

    names = chance.sample(("get_weather", "search", "f", "list-files"), choice((0, 1, 1, 2)))
    tools = [tool(name) for name in names] if level in ("tools", "all") else []
    messages = [{"role": "system", "content": text()}] if chance.random() < 0.5 else []
    for _ in range(choice((1, 1, 2, 2, 3, 4))):
        messages.append({"role": "user", "content": text()})
        while tools and chance.random() < 0.5:
            messages += step()
        messages.append(answer())
    return {"messages": messages} | ({"tools": tools} if tools else {})


def with_counted_ids(dialect: Dialect, record: dict[str, Any]) -> dict[str, Any]:
    """Returns a record with the ids that a format counts, which templates take from records."""
    messages = {"messages": record["messages"]}  # definitions may be text that nothing reads
    episode = dialect.read(messages)[0] if counting(dialect.table) else None
    if episode is None:
        return record
    counted = (*(replace(m, meta={}) for m in episode.messages),)
    return record | dialect.write(replace(episode, messages=counted))


def is_blank(record: dict[str, Any]) -> bool:
    """Returns whether a text of a conversation is white space or nothing, but beside a call."""
    messages = record["messages"]
    texts = [m.get("reasoning_content") for m in messages]
    texts += [m.get("content") for m in messages if m.get("content") or "tool_calls" not in m]
    return any(isinstance(text, str) and not text.strip() for text in texts)
