"""Tool calls in a text, and results as text, in every dialect. Seed: mypt_phase3b_workspace.md, section C."""

from __future__ import annotations

from typing import Any

from mypt_infer.formats import ToolCall, iter_blocks, of
from mypt_spec.truncated import Blocks

__all__ = ["ToolCall", "find_last_toolcall", "render_toolresult"]


def find_last_toolcall(text: str, dialect: str = "mypt") -> ToolCall | None:
    """The last well-formed tool call in what a model wrote, or in a whole conversation; None when there is none.

    Well formed is a block with both tags whose body the engine reads without an error. What a system prompt quotes, a user
    types or a tool returns is never a call. Raises KeyError for an unknown dialect.

    >>> find_last_toolcall('<myPT_toolcall>{"name": "f", "x": {"y": "}"}}</myPT_toolcall>')
    ToolCall(name='f', arguments={'x': {'y': '}'}}, raw_block='<myPT_toolcall>{"name": "f", "x": {"y": "}"}}</myPT_toolcall>')
    >>> find_last_toolcall('<toolcall name="f">{"x": 1}</toolcall>', "mypt-3b").arguments
    {'x': 1}
    """
    fmt = of(dialect)
    table = fmt.dialect.table
    events = fmt.dialect.lex(text)
    blocks = Blocks(table)
    written = []  # whether each event stands where the model writes
    for event in events:
        written.append(
            all(table.openers[kind].body_loss for kind in blocks.open if kind in table.openers)
        )
        blocks.read(event.terminal)
    for start, end in reversed(list(iter_blocks(events, fmt.calls, fmt))):
        if written[start]:
            first, last = events[start].at.span or (0, 0), events[end].at.span or (0, 0)
            calls, _ = fmt.read_calls(
                events[start], events[start + 1].text, text[first[0] : last[1]].strip()
            )
            if calls:
                return calls[-1]
    return None


def render_toolresult(name: str, result: Any, dialect: str = "mypt") -> str:
    """The text of the result of the tool `name`: a JSON value. Tags that it spells are written with an escape.

    Raises ValueError for what is no JSON value, and in a dialect without tool calls; KeyError for an unknown dialect.

    >>> render_toolresult("f", {"a": "</myPT_toolresult>"})
    '<myPT_toolresult>{"a": "\\\\u003c/myPT_toolresult>"}</myPT_toolresult>'
    """
    from mypt_spec.jsonvalue import faults

    fault = next(faults(result), None)
    if fault is not None:
        raise ValueError(
            f"the result is no JSON value: {fault.message}{f' at {fault.pointer}' if fault.pointer else ''}"
        )
    return "".join(event.text for event in of(dialect).result_events(name, result))
