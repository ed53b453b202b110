"""Made-up chats with calls of all shapes, for what is compared on many records."""

from __future__ import annotations

import json
import random
from typing import Any

WORDS = (
    "Hi",
    "a\nb ",
    " é\n\n",
    "}",
    "12",
    "\n x",
    "日本 語",
    'say "no"',
    "C:\\x",
    "🙂",
    "'s",
    "x  ",
)
NAMES = ("find", "get_doc", "a1")


def tools(names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Definitions of tools."""
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    return [
        {"type": "function", "function": {"name": n, "description": "d", "parameters": schema}}
        for n in names
    ]


def said(rng: random.Random) -> str:
    """A text that is not blank and holds no tag."""
    return "".join(rng.choices(WORDS, k=rng.randint(1, 3)))


def arguments(rng: random.Random) -> dict[str, Any]:
    """Arguments of few shapes, with values of all kinds."""
    return rng.choice(
        [
            {},
            {"q": said(rng)},
            {"q": said(rng), "n": rng.randint(-20, 20)},
            {"n": rng.randint(0, 9), "q": said(rng)},
            {"name": said(rng), "deep": {"in": [said(rng), rng.randint(0, 9), None, 1.5]}},
            {"flag": rng.random() < 0.5, "x": rng.choice([0.5, 2.0, 1e30]), "big": 2**60, "e": ""},
        ]
    )


def weighed(record: dict[str, Any], rng: random.Random, weights: list[Any]) -> dict[str, Any]:
    """A chat of which some answers have one of these weights."""
    for message in record["messages"]:
        if message["role"] == "assistant" and rng.random() < 0.5:
            message["weight"] = rng.choice(weights)
    return record


def chat(rng: random.Random, *, calls: int = 2, ids: bool = False) -> dict[str, Any]:
    """A chat of one to three turns, with up to so many calls in a message."""
    declared = NAMES[: rng.randint(1, 3)]
    messages: list[dict[str, Any]] = []
    if rng.random() < 0.5:
        messages.append({"role": "system", "content": said(rng)})
    thinks, called = rng.random() < 0.3, calls and rng.random() < 0.8
    for _ in range(rng.randint(1, 3)):
        messages.append({"role": "user", "content": said(rng)})
        for _ in range(rng.randint(0, 2) if called else 0):
            made = []
            for _ in range(rng.randint(1, calls)):
                given = arguments(rng)
                function = {"name": rng.choice(declared), "arguments": given}
                if rng.random() < 0.3:
                    function["arguments"] = json.dumps(given)
                ident = "".join(rng.choices("abcXYZ019", k=9)) + rng.choice(["", "", "_-"])
                made.append({"type": "function", "function": function})
                if ids or rng.random() < 0.3:
                    made[-1]["id"] = ident
            thought = {"reasoning_content": said(rng)} if thinks else {}
            messages.append({"role": "assistant", **thought, "tool_calls": made})
            for one in made:
                result = {"role": "tool", "content": said(rng)}
                result |= {"tool_call_id": one["id"]} if "id" in one else {}
                if rng.random() < 0.3:
                    result["name"] = one["function"]["name"]
                messages.append(result)
        thought = {"reasoning_content": said(rng)} if thinks else {}
        messages.append({"role": "assistant", **thought, "content": said(rng)})
    record: dict[str, Any] = {"messages": messages}
    if called:
        record["tools"] = tools(declared)
    if rng.random() < 0.2:
        record["chat_template_kwargs"] = rng.choice(
            [{"enable_thinking": False}, {"date_string": "1 May"}, {"reasoning_effort": "low"}]
        )
    return record
