"""Legal records of llama3."""

from __future__ import annotations

from dataclasses import replace

from tests.support.chat_shapes import Shape, plain_tools

NAME = "llama3"
SHAPE = Shape(
    name=NAME, calls=1, ids="c{}", keys=("q", "name", "n m"), quoted=True, beside=False, tools=plain_tools,
    options=(("date_string", ()), ("tools_in_user_message", (True,))),
)  # fmt: skip
WITHOUT_TOOLS = replace(SHAPE, calls=0, tools=None, options=())
record = SHAPE.record
