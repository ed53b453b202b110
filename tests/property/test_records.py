"""Any JSON value, read in any shape, is a chat with findings, never an exception."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mypt_records.checks import findings
from mypt_records.shapes import SHAPES, read, shape_of

KEYS = st.sampled_from([
    "messages", "role", "content", "tool_calls", "function", "name", "arguments", "id", "type",
    "text", "tools", "parameters", "tool_call_id", "weight", "thinking", "reasoning", "system",
    "function_call", "conversations", "from", "value", "instruction", "input", "output", "history",
    "prompt", "completion", "chosen", "rejected", "label",
])  # fmt: skip
WORDS = st.sampled_from(["user", "assistant", "tool", "human", "gpt", "text", "[]", "{}", "", "x"])
LEAVES = WORDS | st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
VALUES = st.recursive(
    LEAVES, lambda v: st.lists(v, max_size=4) | st.dictionaries(KEYS, v, max_size=5), max_leaves=25
)


@pytest.mark.parametrize("shape", SHAPES)
@given(value=VALUES)
def test_anything_is_read(shape: str, value: Any) -> None:
    chat = read(value, shape)
    found = findings(chat)
    assert all(f.pointer == "" or f.pointer.startswith("/") for f in found)
    assert chat.messages or found, "nothing is dropped in silence"
    shape_of(value)
