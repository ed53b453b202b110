"""Turns records of MyPT's phase 3B into steps and back."""

from mypt_convert.bridges.mypt import ToolChat

_KINDS = frozenset({"system", "context", "user", "text", "call", "result"})
BRIDGE = ToolChat(_KINDS, "tool_result", frozenset({"user"}))
