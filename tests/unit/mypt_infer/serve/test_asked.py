"""What a request asks, before any model: parameters, and the key of its decoder."""

from __future__ import annotations

from typing import Any

import pytest

from mypt_infer.decode import Response
from mypt_infer.serve.asked.decoders import Choice, Wanted
from mypt_infer.serve.asked.errors import ApiError
from mypt_infer.serve.asked.parameters import Chat, read

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("find", "read")]
REQUEST = {"model": "tiny", "messages": []}


def test_requests_that_ask_for_other_things_share_no_decoder() -> None:
    asked = [
        Wanted(TOOLS, Choice()),
        Wanted(TOOLS[:1], Choice()),
        Wanted(TOOLS, Choice("none")),
        Wanted(TOOLS, Choice("required")),
        Wanted(TOOLS, Choice("required", "find")),
        Wanted(TOOLS, Choice("required", "read")),
        Wanted(TOOLS, Choice(), Response(schema={"type": "object"})),
        Wanted(TOOLS, Choice(), Response(schema={"type": "string"})),
        Wanted(TOOLS, Choice(), think=False),
    ]
    assert len({wanted.key for wanted in asked}) == len(asked)
    assert Wanted(list(TOOLS), Choice()).key == asked[0].key


@pytest.mark.parametrize(
    ("name", "neutral", "other"),
    [("store", False, 0), ("frequency_penalty", 0, False), ("presence_penalty", 0.0, 1)],
)
def test_a_number_is_no_truth_value(name: str, neutral: Any, other: Any) -> None:
    read(Chat, REQUEST | {name: neutral})
    with pytest.raises(ApiError, match=f"{name} is not supported"):
        read(Chat, REQUEST | {name: other})
