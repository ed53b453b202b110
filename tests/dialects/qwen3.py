"""Legal records of qwen3."""

from __future__ import annotations

from tests.support.chat_shapes import THOUGHTS, Shape, plain_tools

NAME = "qwen3"
SHAPE = Shape(
    name=NAME, thoughts=THOUGHTS, calls=2, ids="call_{}", keys=("q", "name", "n m"), quoted=True,
    tools=plain_tools, options=(("enable_thinking", (True, False)),),
)  # fmt: skip
record = SHAPE.record
