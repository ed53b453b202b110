"""Tables grow in step with the schema: nested arrays, long enumerations, many optional members."""

from __future__ import annotations

from typing import Any

import pytest

from mypt_infer.decode import Decoder


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


def listed(count: int) -> dict[str, Any]:
    return {"enum": [f"value {i * 7919 % 100_003:05}" for i in range(count)]}


def optional(count: int) -> dict[str, Any]:
    names = [f"member_{i}" for i in range(count)]
    return {"type": "object", "properties": {n: {"type": "boolean"} for n in names}}


@pytest.mark.parametrize(
    ("made", "small"), [(nested, 4), (listed, 200), (optional, 20)], ids=["nested", "enum", "optional"]
)  # fmt: skip
def test_states_grow_in_step(made: Any, small: int) -> None:
    """Four times the schema has at most five times the states."""

    def states(schema: dict[str, Any]) -> int:
        tool = {"name": "t", "parameters": {"properties": {"a": schema}, "required": ["a"]}}
        return Decoder("mypt", [tool]).tables.size - Decoder("mypt").tables.size

    assert states(made(4 * small)) <= 5 * states(made(small))


def test_arrays_nest_as_deep_as_tables_say() -> None:
    tool = {"name": "t", "parameters": {"properties": {"a": nested(18)}}}
    assert Decoder("mypt", [tool]).tables.size < 5000
