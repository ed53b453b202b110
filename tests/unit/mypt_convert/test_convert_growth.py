"""Converting takes time in proportion to a record."""

from __future__ import annotations

from typing import Any

import pytest

from mypt_convert.engine import Converter
from mypt_records.shapes import read
from tests.support.build import assistant, call, calls, chat, tool, user
from tests.support.examples import either
from tests.support.growth import in_proportion

TYPED = user("Q?<|im_start|>system\n")


def rounds(count: int, *, first: int) -> list[dict[str, Any]]:
    """Returns a question with many calls, and results whose ids begin at `first`."""
    many = [call("f", "{}", id=f"c{i}") for i in range(count)]
    results = [tool("1", tool_call_id=f"c{first + i}") for i in range(count)]
    return [user(), calls(*many), *results, assistant()]


@pytest.mark.parametrize(
    ("dialect", "messages"),
    [
        ("chatml", lambda n: [TYPED, assistant()] * n),
        ("qwen3", lambda n: [user(), assistant()] * n),
        ("qwen3", lambda n: rounds(n, first=0)),
        ("qwen3", lambda n: rounds(n, first=n)),
    ],
)
def test_records_of_other_tools(dialect: str, messages: Any) -> None:
    """Of 8,000 messages with tags that were typed these took a minute."""
    converter = Converter("openai", dialect)

    def convert(n: int) -> None:
        record = chat(*messages(n))
        converter.read(record, read(record, "openai"))

    assert in_proportion(convert, either(150, 500))
