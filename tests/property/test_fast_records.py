"""Third-party records of which the fast path says that they are clean are clean for the checker.

Records with calls of tools that no other record has, each with a few changes: a block of them has
the findings that each line has by itself, whatever was seen before.
"""

from __future__ import annotations

import copy
import json
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bench.data
import bench.records
import mypt_spec
from bench.chats import tool
from mypt_lint.check.checker import Checker
from mypt_lint.fast.fast_checker import FastChecker

TEXTS = [
    "Hi", "", "  ", " x", "x\n", "a<b", "[INST]", "<|im_end|>", "{{name}}", "<think>", "noinput", "[f(a=1)]", "\u2003[f(a=1)]", "[1]", '{"a": 1}',
    '{"a":1}', '"x"', "null", "4", "<tool_response>4</tool_response>", '<tool_call>{"name": "f", "arguments": {}}</tool_call>', "caf\xc3\xa9",
    "a\u200bb", "na " * 200, "As an AI language model", "ghp_" + "aB3dE6gH9j" * 4, "\ue000", "# Tools", "x<|im_end", "</tool_call>", "\u2028",
    "e\u0301", "[TOOL_CALLS]", "<|start|>", "\0", "<tools>[]</tools>", "<image>",
]  # fmt: skip
VALUES = [
    None, True, False, 0, 1, 2.5, 1 << 70, "x", [], {}, ["a"], {"a": 1}, "{}", '{"a": 1}', '{"q": "<|im_end|>"}', '{"q": null}', {"q": None},
    '{"q": 1, "q": 2}',
]  # fmt: skip
KEYS = [
    "role", "content", "name", "weight", "tool_calls", "tool_call_id", "reasoning_content", "thinking", "refusal", "id", "type", "function",
    "arguments", "tools", "messages", "system", "language", "chat_template_kwargs", "source", "_id", "_x", "foo", "label", "prompt", "images",
    "parameters", "description", "properties", "required", "enum", "additionalProperties", "metadata", "train", "response_format",
]  # fmt: skip
ROLES = ["user", "assistant", "system", "developer", "tool", "human", "tool_call", "function"]
SHARED = [tool(Random(seed)) for seed in range(3)]


def spots(value: Any, holder: Any = None, key: Any = None) -> list[tuple[Any, Any, Any]]:
    """Returns all values inside of a value, each with what holds it, and under which key."""
    found = [(value, holder, key)]
    items: Any = ()
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for inner, item in items:
        found += spots(item, value, inner)
    return found


def change(random: Random, record: Any) -> None:
    value, holder, key = random.choice(spots(record))
    way = random.randrange(7)
    if isinstance(value, dict) and way < 3:
        value[random.choice(KEYS)] = random.choice(VALUES + TEXTS)
    elif isinstance(value, dict) and value and way == 3:
        value.pop(random.choice(list(value)))
    elif isinstance(value, list) and value and way < 3:
        value.insert(random.randrange(len(value) + 1), copy.deepcopy(random.choice(value)))
    elif isinstance(value, list) and value and way < 5:
        value.pop(random.randrange(len(value)))
    elif key == "role":
        holder[key] = random.choice(ROLES)
    elif holder is not None:
        texts = isinstance(value, str) and random.random() < 0.8
        holder[key] = random.choice(TEXTS if texts else VALUES)


def line(random: Random, shape: str, name: str) -> bytes:
    kind = random.choice(bench.records.KINDS) if shape == "openai" else "chats"
    words = random.choice((bench.records.plain, bench.data.prose))
    made: Any = copy.deepcopy(bench.records.record(random, kind, words, SHARED))
    for message in made["messages"] if random.random() < 0.3 else ():
        if message["role"] == "assistant" and message["content"]:
            message["reasoning_content"] = words(random, 30)
    if shape == "sharegpt":
        said = {"user": "human", "assistant": "gpt", "system": "system"}
        turns = [{"from": said[m["role"]], "value": m["content"]} for m in made["messages"]]
        made = {"conversations": turns}
    if random.random() < 0.2:
        made |= random.choice(({"source": "x"}, {"id": 7, "metadata": {"a": ["b"]}}, {"row": "1"}))
    for _ in range(random.choice((0, 0, 1, 1, 2, 3))):
        change(random, made)
    text = json.dumps(made, ensure_ascii=random.random() < 0.5)
    if random.random() < 0.05:
        text = text.replace('"content":', '"content": 1, "content":', 1)
    if random.random() < 0.03:
        text += "\r"
    if name == "mistral":
        text = text.replace("call_", "call0000")
    return text.encode("utf-8", "surrogatepass")


@cache
def checkers(name: str, shape: str) -> FastChecker:
    """One for all examples, which remembers what it has seen."""
    dialect = mypt_spec.dialect(name or "mypt")
    return FastChecker(Checker(dialect, shape=shape, formatless=not name, system="S"))


CASES = [("", "openai"), ("", "sharegpt"), ("qwen3", "openai"), ("qwen3", "sharegpt")]
CASES += [(name, "openai") for name in ("llama3", "mistral", "harmony", "chatml")]


@pytest.mark.parametrize(("name", "shape"), CASES)
@given(st.integers(0, 1 << 40))
def test_a_block_has_the_findings_of_its_lines(name: str, shape: str, seed: int) -> None:
    random, fast = Random(seed), checkers(name, shape)
    lines = [line(random, shape, name) for _ in range(4)]
    _, doubtful = fast.block(b"\n".join(lines) + b"\n", row=2, filename="f")
    found = [item for _, items in doubtful for item in items]
    each = [fast.checker.line(raw, row=row, filename="f") for row, raw in enumerate(lines, 2)]
    assert found == [item for items in each for item in items]


@pytest.mark.parametrize("name", ["", "qwen3", "llama3"])
def test_clean_records_need_no_checker_but_for_the_first_of_their_form(name: str) -> None:
    random, fast = Random(3), FastChecker(checkers(name, "openai").checker)
    for kind in bench.records.KINDS:
        for _ in range(3):
            made = bench.records.record(random, kind, bench.data.prose, SHARED)
            assert not fast.clean_filter.doubtful([json.dumps(made).encode()]), made
