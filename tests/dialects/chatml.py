"""Legal records of chatml."""

from __future__ import annotations

from tests.support.chat_shapes import Shape

NAME = "chatml"
SHAPE = Shape(name=NAME)
record = SHAPE.record
