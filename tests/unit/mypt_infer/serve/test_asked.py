"""What a request asks, before any model: parameters, and the key of its decoder."""

from __future__ import annotations

from typing import Any

import pytest

from mypt_infer.decode import Response
from mypt_infer.serve.asked.decoders import Choice, Recipe
from mypt_infer.serve.asked.errors import ApiError
from mypt_infer.serve.asked.parameters import Chat, read

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("find", "read")]
REQUEST = {"model": "tiny", "messages": []}


def test_requests_that_ask_for_other_things_share_no_decoder() -> None:
    asked = [
        Recipe(TOOLS, Choice()),
        Recipe(TOOLS[:1], Choice()),
        Recipe(TOOLS, Choice("none")),
        Recipe(TOOLS, Choice("required")),
        Recipe(TOOLS, Choice("required", "find")),
        Recipe(TOOLS, Choice("required", "read")),
        Recipe(TOOLS, Choice(), Response(schema={"type": "object"})),
        Recipe(TOOLS, Choice(), Response(schema={"type": "string"})),
        Recipe(TOOLS, Choice(), think=False),
    ]
    assert len({wanted.key for wanted in asked}) == len(asked)
    assert Recipe(list(TOOLS), Choice()).key == asked[0].key


@pytest.mark.parametrize(
    ("name", "neutral", "other"),
    [("store", False, 0), ("frequency_penalty", 0, False), ("presence_penalty", 0.0, 1)],
)
def test_a_number_is_no_truth_value(name: str, neutral: Any, other: Any) -> None:
    read(Chat, REQUEST | {name: neutral})
    with pytest.raises(ApiError, match=f"{name} is not supported"):
        read(Chat, REQUEST | {name: other})
