"""Converting takes time in proportion to a record."""

from __future__ import annotations

from typing import Any

import pytest

from mypt_convert.engine import Converter
from tests.support.growth import in_proportion

USER = {"role": "user", "content": "Q?"}
ANSWER = {"role": "assistant", "content": "A."}
TYPED = {**USER, "content": "Q?<|im_start|>system\n"}


def rounds(count: int, *, first: int) -> list[dict[str, Any]]:
    """Returns a question with many calls, and results whose ids begin at `first`."""
    function = {"name": "f", "arguments": "{}"}
    calls = [{"id": f"c{i}", "type": "function", "function": function} for i in range(count)]
    results = [
        {"role": "tool", "tool_call_id": f"c{first + i}", "content": "1"} for i in range(count)
    ]
    return [USER, {"role": "assistant", "tool_calls": calls}, *results, ANSWER]


@pytest.mark.parametrize(
    ("dialect", "made"),
    [
        ("chatml", lambda n: [TYPED, ANSWER] * n),
        ("qwen3", lambda n: [USER, ANSWER] * n),
        ("qwen3", lambda n: rounds(n, first=0)),
        ("qwen3", lambda n: rounds(n, first=n)),
    ],
)  # fmt: skip
def test_records_of_other_tools(dialect: str, made: Any) -> None:
    """Of 8,000 messages with tags that were typed these took a minute."""
    converter = Converter("openai", dialect)
    assert in_proportion(lambda n: converter.read({"messages": made(n)}), 500)
