"""Legal records of mistral."""

from __future__ import annotations

from tests.support.chat_shapes import Shape, described_tools

NAME = "mistral"
SHAPE = Shape(
    name=NAME, calls=2, ids="call{:05}", identified=True, empty_answers=False, tools=described_tools
)
record = SHAPE.record
