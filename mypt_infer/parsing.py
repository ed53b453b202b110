"""Reads tool calls and results in a text, and writes results as text, in each dialect.

These functions are for callers that have text and no log, such as existing chat loops.
"""

import json
from typing import Any

from mypt_infer.run_format import Format, ToolCall, format_of
from mypt_spec.bodies.call_tags import NO_JSON
from mypt_spec.bodies.json_body import read_body
from mypt_spec.bodies.strict_json import faults
from mypt_spec.damage.cut_tags import Blocks
from mypt_spec.episode import Event, Place
from mypt_spec.states import model_writes_in
from mypt_spec.table import TEXT

__all__ = ["ToolCall", "find_last_toolcall", "read_toolresult", "render_toolresult"]

_SCAN = json.JSONDecoder().raw_decode


def find_last_toolcall(text: str, dialect: str = "mypt") -> ToolCall | None:
    """Returns the last well-formed tool call in a text, or None.

    The text is what a model wrote, or a whole conversation. A call is well formed if its block has
    both tags and the engine reads its body without an error. The body ends where its JSON ends: a
    tag inside a string is text. What a system prompt quotes, a user types or a tool returns is
    never a call. Raises KeyError for an unknown dialect.

    >>> text = '<myPT_toolcall>{"name": "f", "x": {"y": "}"}}</myPT_toolcall>'
    >>> find_last_toolcall(text).arguments
    {'x': {'y': '}'}}
    >>> find_last_toolcall('<toolcall name="f">{"x": 1}</toolcall>', "mypt-3b").arguments
    {'x': 1}
    """
    fmt = format_of(dialect)
    openers = fmt.dialect.table.openers
    tags = {name for name, t in fmt.dialect.table.terminals.items() if t.opens in fmt.calls}
    blocks, last_call, at = Blocks(fmt.dialect.table), None, 0
    events = fmt.dialect.lex(text)
    types = fmt.types_in(events)
    for number, event in enumerate(events):
        start, stop = event.at.extent
        if start < at:
            continue  # inside the body of a call
        by_model = model_writes_in(tuple(k for k in blocks.open if k in openers), fmt.dialect.table)
        blocks.read(event.terminal)
        if by_model and event.terminal in tags:
            closer = _closer(text, events, number, fmt)
            if closer is not None:
                at, end = closer.at.extent
                calls, _ = fmt.read_calls(event, text[stop:at], text[start:end].strip(), types)
                last_call = calls[-1] if calls else last_call
    return last_call


def _closer(text: str, events: list[Event], number: int, fmt: Format) -> Event | None:
    """Returns the tag after the JSON value in the block that event `number` opens, or None."""
    table, begin = fmt.dialect.table, events[number].at.extent[1]
    opener = table.terminals[events[number].terminal]
    name = table.closers[opener.opens].name
    if opener.body in NO_JSON:  # no value may spell a tag
        ends = [e for e in events[number + 1 : number + 3] if e.terminal != TEXT]
        return ends[0] if ends and ends[0].terminal == name else None
    try:
        _, end = _SCAN(text, begin + len(text[begin:]) - len(text[begin:].lstrip()))
    except (ValueError, RecursionError):
        return None
    following = (e for e in events[number + 1 :] if e.terminal != TEXT and e.at.extent[0] >= end)
    closer = next(following, None)
    if closer is None or closer.terminal != name or text[end : closer.at.extent[0]].strip():
        return None
    return closer


def read_toolresult(text: str, dialect: str = "mypt") -> tuple[str, Any] | None:
    r"""Returns (name, value) of a text that is one result block; None for any other text.

    The inverse of `render_toolresult`. The name is "" if the format does not write it there. Raises
    KeyError for an unknown dialect.

    >>> read_toolresult('<toolresult name="f">\n{"a": 1}\n</toolresult>', "mypt-3b")
    ('f', {'a': 1})
    """
    fmt = format_of(dialect)
    events = fmt.dialect.lex(text.strip())
    if fmt.result is None or fmt.result.body != "json" or len(events) != 3:
        return None
    opener, text_event, closer = events
    ends = fmt.dialect.table.closers.get(fmt.result.opens, fmt.result).name
    if (opener.terminal, text_event.terminal, closer.terminal) != (fmt.result.name, TEXT, ends):
        return None
    body = read_body(text_event.text, "json", fmt.dialect.table.literals, Place())
    return None if body.text is None else (dict(opener.attrs).get("name", ""), body.value)


def render_toolresult(name: str, result: Any, dialect: str = "mypt", *, call_id: str = "") -> str:
    r"""Returns the text of the result of the tool `name`; tags in it are written with an escape.

    `call_id` is the id of the call, which some dialects write. Raises ValueError for a `result`
    that is no JSON value, without an id in a dialect that must have one, and in a dialect without
    tool calls; KeyError for an unknown dialect. Where results are inside of a block of the system,
    that block is around it.

    >>> render_toolresult("f", {"a": "</myPT_toolresult>"})
    '<myPT_toolresult>{"a": "\\u003c/myPT_toolresult>"}</myPT_toolresult>'
    """
    fault = next(faults(result), None)
    if fault is not None:
        at = f" at {fault.pointer}" if fault.pointer else ""
        raise ValueError(f"the result is not a JSON value: {fault.message}{at}")
    events = format_of(dialect).result_events(name, result, call_id)
    return "".join(event.text for event in events)
