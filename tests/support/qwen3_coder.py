"""The format `qwen3-coder`, in which calls and definitions are tags."""

from __future__ import annotations

import json
from functools import cache

import mypt_spec
from mypt_spec import Dialect
from mypt_spec.dialect import families
from tests.support.chat_shapes import Shape, typed_tools
from tests.support.maker import Record

FOLDER = families()["qwen3-coder"]
# Texts of Qwen3, whose tags are more, in calls of tools whose schemas have each type.
SHAPE = Shape(
    name="qwen3", calls=2, ids="call_{}", keys=("city", "n", "unit_2", "q"), quoted=True, tools=typed_tools
)  # fmt: skip


@cache
def dialect() -> Dialect:
    return mypt_spec.dialect("qwen3-coder")


def without_ids(record: Record) -> Record:
    """Returns a record without what its text does not say: ids, names of results and notes."""
    out: Record = json.loads(json.dumps(record))
    for message in out["messages"]:
        for key in ("tool_call_id", "name", "_note"):
            message.pop(key, None)
        for call in message.get("tool_calls", ()):
            call.pop("id", None)
    return out
