"""Chats with calls of few shapes and many texts, for what is learnt from many records."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.support.build import call, function, tool, user

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
ONE_CALL = ("harmony", "llama3")  # a message has one call at most
OPTIONS = [{"enable_thinking": False}, {"date_string": "1 May"}, {"reasoning_effort": "low"}]


def tools(names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Returns definitions of tools."""
    parameters = {"q": {"type": "string"}}
    return [function(name, parameters, additionalProperties=True) for name in names]


def text(rng: random.Random) -> str:
    """Returns a text that is not blank and holds no tag."""
    return "".join(rng.choices(WORDS, k=rng.randint(1, 3)))


def arguments(rng: random.Random) -> dict[str, Any]:
    """Returns arguments of few shapes, with values of all kinds."""
    return rng.choice(
        [
            {},
            {"q": text(rng)},
            {"q": text(rng), "n": rng.randint(-20, 20)},
            {"n": rng.randint(0, 9), "q": text(rng)},
            {"name": text(rng), "deep": {"in": [text(rng), rng.randint(0, 9), None, 1.5]}},
            {"flag": rng.random() < 0.5, "x": rng.choice([0.5, 2.0, 1e30]), "big": 2**60, "e": ""},
        ]
    )


def weighed(record: dict[str, Any], rng: random.Random, weights: list[Any]) -> dict[str, Any]:
    """Returns a chat of which some answers have one of these weights."""
    for message in record["messages"]:
        if message["role"] == "assistant" and rng.random() < 0.5:
            message["weight"] = rng.choice(weights)
    return record


def chat(rng: random.Random, name: str) -> dict[str, Any]:
    """Returns a chat of one to three turns, as a format can have it."""
    declared = NAMES[: rng.randint(1, 3)]
    messages: list[dict[str, Any]] = []
    if rng.random() < 0.5:
        messages.append({"role": "system", "content": text(rng)})
    thinks, calls = rng.random() < 0.3, rng.random() < 0.8
    for _ in range(rng.randint(1, 3)):
        messages.append(user(text(rng)))
        for _ in range(rng.randint(0, 2) if calls else 0):
            made = []
            for _ in range(rng.randint(1, 1 if name in ONE_CALL else 2)):
                given = arguments(rng)
                quoted = rng.random() < 0.3
                made.append(call(rng.choice(declared), json.dumps(given) if quoted else given))
                if "mistral" in name or rng.random() < 0.3:
                    ident = "".join(rng.choices("abcXYZ019", k=9)) + rng.choice(
                        ["", "", "_-" * (name != "mistral")]
                    )
                    made[-1]["id"] = ident
            thought = {"reasoning_content": text(rng)} if thinks else {}
            messages.append({"role": "assistant", **thought, "tool_calls": made})
            for one in made:
                ident = {"tool_call_id": one["id"]} if "id" in one else {}
                named = {"name": one["function"]["name"]} if rng.random() < 0.3 else {}
                messages.append(tool(text(rng), **ident, **named))
        thought = {"reasoning_content": text(rng)} if thinks else {}
        messages.append({"role": "assistant", **thought, "content": text(rng)})
    record: dict[str, Any] = {"messages": messages}
    if calls:
        record["tools"] = tools(declared)
    if rng.random() < 0.2:
        record["chat_template_kwargs"] = rng.choice(OPTIONS)
    return record
