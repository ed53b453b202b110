"""Make answers of a model in a format, with what they say: texts, thoughts, calls of several types."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import mypt_spec
from mypt_infer.serve.asked.prompts import Prompter
from mypt_infer.serve.deltas import DeltaReader
from mypt_train.export.chat_facts import endings
from tests.support import vocabulary
from tests.support.build import assistant, function, user

SYSTEM = {"role": "system", "content": "S"}
TOOLS = [
    function(
        "find",
        {
            "q": {"type": "string"},
            "n": {"type": "integer"},
            "share": {"type": "number"},
            "exact": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "where": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    ),
    function("send_mail", {"to": {"type": "string"}, "body": {"type": "string"}}),
    function("now"),
]
WORDS = [
    "Oslo", "a < b", "x > 1", '"so"', "it's", "naïve", "北京", "🙂", "{", "}", "[1]", "\\n", "1.", "*",
    "</", "<x>", "e.g.", "and", "the", "weather", "I'll", "look", "it", "up", "in", "10 %", "`code`",
    "&amp;", "a: b,", "null", "true", "?", "Привет", "<|", "\n", "\n\n", "- one",
]  # fmt: skip


class Known(NamedTuple):
    """An answer of a model.

    It has the ids of the prompt, its own ids up to the stop token, and the message that it says.
    `stops` are the ids at which a model of the format stops; `opened` says whether the prompt opens
    a thought.
    """

    dialect: mypt_spec.Dialect
    prompt: list[int]
    ids: list[int]
    message: dict[str, Any]
    stops: list[int]
    opened: bool


@cache
def _prompter(name: str, *, small: bool = False) -> Prompter:
    return Prompter(vocabulary.small(name) if small else mypt_spec.dialect(name), name)


def written(
    name: str, message: dict[str, Any], tools: list[Any], *, small: bool = False
) -> Known | None:
    """Returns an answer as a format writes it; None if the format has no place for a part of it.

    `small`: on the small vocabulary.
    """
    prompter = _prompter(name, small=small)
    dialect, tools = prompter.dialect, tools if "tool_calls" in message else []
    for head in ([SYSTEM], []):
        try:
            prompt = prompter.prompt([*head, user("Hi")], tools).ids
            episode, _, _ = prompter.episode([*head, user("Hi"), message], tools)
            ids = dialect.encode(episode, partial=True).ids.tolist()
        except ValueError:
            continue
        if ids[: len(prompt)] == prompt:  # else the prompt opens a thought that the answer has not
            stops = [dialect.table.special[tag] for tag in endings(dialect)]
            own = ids[len(prompt) :]
            end = next((n for n, i in enumerate(own, 1) if i in stops), len(own))
            opened = DeltaReader(prompter.format, prompt).is_thinking
            return Known(dialect, prompt, own[:end], message, stops, opened)
    return None


def text(draw: random.Random, most: int) -> str:
    """Returns a text without white space around it, which some formats strip.

    It begins with no bracket, which may be the beginning of a call.
    """
    return " ".join(draw.choices(WORDS, k=draw.randint(1, most))).strip("{[ \n") or "Yes."


def _arguments(draw: random.Random, name: str) -> dict[str, Any]:
    if name == "now":
        return {}
    if name == "send_mail":
        return {"to": "ann@example.com", "body": text(draw, 8)}
    every = {
        "q": text(draw, 4),
        "n": draw.randint(-5, 1000),
        "share": draw.choice([0.5, -2.25, 10.0]),
        "exact": draw.random() < 0.5,
        "tags": [text(draw, 2) for _ in range(draw.randint(0, 2))],
        "where": {"city": draw.choice(["Oslo", "北京", 'a "b"'])},
    }
    return {key: every[key] for key in every if key == "q" or draw.random() < 0.4}


def messages(draw: random.Random, most: int = 12) -> Iterator[dict[str, Any]]:
    """Yields messages without end: texts, thoughts, calls, and several of them."""
    while True:
        names = draw.choices([tool["function"]["name"] for tool in TOOLS], k=draw.randint(0, 2))
        calls = [
            {"id": f"call_{i}aaa", "type": "function", "function": {"name": one, "arguments": _arguments(draw, one)}}
            for i, one in enumerate(names)
        ]  # fmt: skip
        content = text(draw, most) if not calls or draw.random() < 0.3 else ""
        more = {"tool_calls": calls} if calls else {}
        thought = {"reasoning_content": text(draw, most)} if draw.random() < 0.6 else {}
        yield assistant(content, **more, **thought)


def many(name: str, count: int, *, thinking: bool = False, most: int = 12) -> list[Known]:
    """Returns `count` answers of a format, fewer if it has few; `thinking`: each has thoughts.

    Texts have `most` words.
    """
    out, missed = list[Known](), 0
    for message in messages(random.Random(name), most):
        is_asked = "reasoning_content" in message or not thinking
        known = written(name, message, TOOLS) if is_asked else None
        missed = 0 if known else missed + 1
        out += [known] if known else []
        if len(out) == count or missed > 400:
            return out
    return out
