"""Any JSON value, read in any shape, is a chat with findings, never an exception."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given

from mypt_records.checks import findings
from mypt_records.shapes import SHAPES, read, shape_of
from tests.support.maker import any_json, drawn

KEYS = [
    "messages", "role", "content", "tool_calls", "function", "name", "arguments", "id", "type",
    "text", "tools", "parameters", "tool_call_id", "weight", "thinking", "reasoning", "system",
    "function_call", "conversations", "from", "value", "instruction", "input", "output", "history",
    "prompt", "completion", "chosen", "rejected", "label",
]  # fmt: skip
WORDS = ["user", "assistant", "tool", "human", "gpt", "text", "[]", "{}", "", "x"]
VALUES = drawn(lambda random: any_json(random, KEYS, WORDS, 4))


@pytest.mark.parametrize("shape", SHAPES)
@given(VALUES)
@example([])
@example({})
@example({"instruction": True})  # as a pair, without answers
def test_anything_is_read(shape: str, value: Any) -> None:
    chat = read(value, shape)
    about = findings(chat)
    assert all(f.pointer == "" or f.pointer.startswith("/") for f in about)
    whole = shape in ("plain", "text") and isinstance(value, dict) and "text" in value
    assert chat.messages or about or whole, "nothing is dropped in silence"
    shape_of(value)
