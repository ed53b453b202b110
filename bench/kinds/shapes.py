"""Clean records in 15 shapes, made from a seed: no rule has a reason to object to any of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from bench.kinds.texts import question, text

Record = dict[str, Any]


def _tool(name: str, about: str, properties: Record, required: list[str]) -> Record:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {
        "type": "function",
        "function": {"name": name, "description": about, "parameters": parameters},
    }


WEATHER = _tool(
    "get_weather",
    "Current weather of a city.",
    {
        "city": {"type": "string", "description": "Name of the city."},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
    },
    ["city"],
)
SEARCH = _tool(
    "search_docs",
    "Full-text search.",
    {
        "query": {"type": "string"},
        "limit": {"type": "integer"},
        "filters": {
            "type": "object",
            "properties": {
                "lang": {"type": "string"},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
        },
    },
    ["query"],
)
ORDER = _tool(
    "place_order",
    "Orders an article.",
    {
        "article": {"type": "string"},
        "count": {"type": "integer"},
        "price": {"type": "number"},
        "gift": {"type": "boolean"},
    },
    ["article", "count"],
)
TOOLS = [WEATHER, SEARCH, ORDER]
CITIES = [
    "Oslo",
    "Paris",
    "Lagos",
    "Quito",
    "Hanoi",
    "Pune",
    "Zürich",
    "Kraków",
    "Nagoya",
    "Austin",
    "Perth",
    "İzmir",
]


def call_id(rng: random.Random) -> str:
    return "call_" + "".join(rng.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=16))


def arguments(rng: random.Random, name: str) -> Record:
    if name == "get_weather":
        return {"city": rng.choice(CITIES)} | (
            {"unit": "celsius", "days": rng.randint(1, 14)} if rng.random() < 0.5 else {}
        )
    if name == "search_docs":
        filters = (
            {"filters": {"lang": "en", "tags": ["how-to", "v2"]}} if rng.random() < 0.4 else {}
        )
        return {"query": text(rng, 20), "limit": rng.randint(1, 50)} | filters
    return {
        "article": text(rng, 10),
        "count": rng.randint(1, 9),
        "price": rng.randint(100, 9999) / 100,
        "gift": rng.random() < 0.5,
    }


def result(rng: random.Random, name: str) -> str:
    if name == "get_weather":
        return json.dumps(
            {"temperature": rng.randint(-20, 40), "sky": rng.choice(["clear", "rain", "snow"])}
        )
    if name == "search_docs":
        hits = [
            {"id": rng.randint(1, 10**6), "snippet": text(rng, 60)}
            for _ in range(rng.randint(1, 3))
        ]
        return json.dumps({"hits": hits}, ensure_ascii=False)
    return f"Order {rng.randint(10**5, 10**6)} accepted."


def call(rng: random.Random, name: str | None = None) -> Record:
    name = name or rng.choice(TOOLS)["function"]["name"]
    function = {"name": name, "arguments": json.dumps(arguments(rng, name), ensure_ascii=False)}
    return {"id": call_id(rng), "type": "function", "function": function}


def user(rng: random.Random) -> Record:
    return {"role": "user", "content": question(rng)}


def answer(rng: random.Random) -> Record:
    return {"role": "assistant", "content": text(rng, rng.choice((60, 200, 500, 1200)))}


def calls(rng: random.Random, count: int, content: str | None = None) -> list[Record]:
    """Returns a message of calls, and their results."""
    made = [call(rng) for _ in range(count)]
    results = [
        {"role": "tool", "tool_call_id": c["id"], "content": result(rng, c["function"]["name"])}
        for c in made
    ]
    return [{"role": "assistant", "content": content, "tool_calls": made}, *results]


def system(rng: random.Random) -> Record:
    return {"role": "system", "content": "You are a careful assistant. " + text(rng, 60)}


def chat(rng: random.Random) -> Record:
    return {"messages": [user(rng), answer(rng)]}


def turns(rng: random.Random) -> Record:
    messages = [system(rng)] if rng.random() < 0.7 else []
    for _ in range(rng.randint(2, 6)):
        messages += [user(rng), answer(rng)]
    return {"messages": messages}


def one_tool(rng: random.Random) -> Record:
    return {"tools": TOOLS, "messages": [system(rng), user(rng), *calls(rng, 1), answer(rng)]}


def parallel(rng: random.Random) -> Record:
    return {"messages": [user(rng), *calls(rng, rng.randint(2, 4)), answer(rng)], "tools": TOOLS}


def agent(rng: random.Random) -> Record:
    messages = [system(rng), user(rng)]
    for _ in range(rng.randint(2, 8)):
        messages += calls(rng, 1, text(rng, 60) if rng.random() < 0.4 else None)
    messages.append(answer(rng))
    if rng.random() < 0.5:
        messages += [user(rng), *calls(rng, 2), answer(rng)]
    return {"messages": messages, "tools": rng.sample(TOOLS, 3)}


def thinking(rng: random.Random) -> Record:
    return {"messages": [user(rng), answer(rng) | {"reasoning_content": text(rng, 300)}]}


def functions(rng: random.Random) -> Record:
    name = rng.choice(TOOLS)["function"]["name"]
    body = {"name": name, "arguments": json.dumps(arguments(rng, name))}
    return {
        "functions": [tool["function"] for tool in TOOLS],
        "messages": [
            user(rng),
            {"role": "assistant", "content": None, "function_call": body},
            {"role": "function", "name": name, "content": result(rng, name)},
            answer(rng),
        ],
    }


def sharegpt(rng: random.Random) -> Record:
    said = [
        {"from": ("human", "gpt")[i % 2], "value": (answer if i % 2 else user)(rng)["content"]}
        for i in range(2 * rng.randint(1, 4))
    ]
    return {"conversations": said} | (
        {"system": system(rng)["content"]} if rng.random() < 0.3 else {}
    )


def alpaca(rng: random.Random) -> Record:
    return {
        "instruction": question(rng),
        "input": text(rng, 80) if rng.random() < 0.5 else "",
        "output": text(rng, 300),
    }


def completion(rng: random.Random) -> Record:
    return {"prompt": question(rng) + "\n\n", "completion": text(rng, 300)}


def prompt_messages(rng: random.Random) -> Record:
    return {"prompt": [system(rng), user(rng)], "completion": [answer(rng)]}


def preference(rng: random.Random) -> Record:
    # Both answers of a pair have lengths of the same kind.
    return {"prompt": [user(rng)], "chosen": [answer(rng)], "rejected": [answer(rng)]}


def kto(rng: random.Random) -> Record:
    return {"prompt": [user(rng)], "completion": [answer(rng)], "label": rng.random() < 0.5}


def parts(rng: random.Random) -> Record:
    asked = {"role": "user", "content": [{"type": "text", "text": question(rng)}]}
    return {"messages": [asked, answer(rng)]}


def plain(rng: random.Random) -> Record:
    return {"text": text(rng, 800)}


SHAPES: tuple[Callable[[random.Random], Record], ...] = (
    chat, turns, one_tool, parallel, agent, thinking, functions, sharegpt, alpaca, completion, prompt_messages,
    preference, kto, parts, plain,
)  # fmt: skip
