"""Tools and schemas of any size, for what may grow in step with them and no faster."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def nested_schema(depth: int) -> Schema:
    schema: Schema = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


def long_enum(count: int) -> Schema:
    return {"enum": [f"value {i * 7919 % 100_003:05}" for i in range(count)]}


def optional_members(count: int) -> Schema:
    return {"type": "object", "properties": {f"member_{i}": {"type": "boolean"} for i in range(count)}}  # fmt: skip


def many_tools(count: int) -> list[dict[str, Any]]:
    """Tools of the size that real ones have."""
    more = {
        "a": nested_schema(1),
        "b": long_enum(5),
        "c": {"type": "integer"},
        "d": {"type": "string"},
    }
    return [
        {
            "name": f"tool_{i * 7919 % 1009}.do",
            "parameters": {
                "properties": {f"{k}_{i * 31 % 97}": v for k, v in more.items()}
                | {"where": optional_members(4)},
                "required": [f"d_{i * 31 % 97}"],
            },
        }
        for i in range(count)
    ]
