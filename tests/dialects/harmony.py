"""Legal records of harmony."""

from __future__ import annotations

from tests.support.chat_shapes import Shape, typed_tools

NAME = "harmony"
SHAPE = Shape(
    name=NAME, heads=("system", "developer"), thoughts=("reasoning_content",), calls=1, ids="c{}",
    names=("f", "get_it", "workspace.search"), result_names=True, tools=typed_tools,
    options=(
        ("reasoning_effort", ("low", "medium", "high")), ("model_identity", ()),
        ("conversation_start_date", ("2025-06-28",)),
        ("builtin_tools", ([], ["browser"], ["python", "browser"])),
    ),
)  # fmt: skip
record = SHAPE.record
