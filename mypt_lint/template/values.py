"""Takes a conversation apart into the values that a chat template has to write, and finds them.

In the shipped conversations no two values of one are alike, so a value is found by its text.
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, NamedTuple


class Value(NamedTuple):
    """One value: its kind in findings, its text, and the index of its message (-1: of a tool)."""

    kind: str
    text: str
    message: int


TAG = re.compile(
    r"<[|｜][^|｜<>\s]+[|｜]?>|</?[A-Za-z_][\w.-]*[|｜]?>|\[/?[A-Z_]+\]|\[[|｜][^|｜\[\]\s]+[|｜]\]"
)
_ANCHORS = ("question", "answer", "result")  # what is written once
_TEXTS = (*_ANCHORS, "system prompt", "developer message", "thought", "earlier thought", "argument")
_OFTEN = 20  # places of one text that are looked at
_NAMES = {
    "system": "system prompt",
    "developer": "developer message",
    "user": "question",
    "assistant": "answer",
    "tool": "result",
}


def facts(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> dict[str, Any]:
    """Returns what checks ask of a conversation, whatever a template makes of it."""
    items = values(messages, tools)
    calls = [call["function"]["arguments"] for m in messages for call in m.get("tool_calls") or ()]
    return {
        "_values": (*items,),
        "_texts": (*dict.fromkeys(value.text.strip() for value in items),),
        "_arguments": calls,
        "_has_constant": _has_constant([calls, tools or []]),
        "_has_tag": any(TAG.search(value.text) for value in items),
    }


def _has_constant(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_constant, value.values() if isinstance(value, dict) else value))
    return value is None or isinstance(value, bool)


def values(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> list[Value]:
    """Returns the values of a conversation, messages first, in their order."""
    last = max((i for i, m in enumerate(messages) if m["role"] == "assistant"), default=0)
    out = [value for i, m in enumerate(messages) for value in _of_message(m, i, i < last)]
    for tool in tools or ():
        function = tool["function"]
        out += [
            Value("declared tool", function["name"], -1),
            Value("description", function["description"], -1),
        ]
    return [value for value in out if value.text.strip()]


def _of_message(message: dict[str, Any], at: int, earlier: bool) -> Iterator[Value]:
    if thought := message.get("reasoning_content"):
        yield Value("earlier thought" if earlier else "thought", thought, at)
    content = message.get("content") or ""
    parts = (
        [content]
        if isinstance(content, str)
        else [part["text"] for part in content if "text" in part]
    )
    yield from (Value(_NAMES[message["role"]], text, at) for text in parts)
    if message["role"] == "tool" and "name" in message:
        yield Value("name of a result", message["name"], at)
    for call in message.get("tool_calls") or ():
        function = call["function"]
        yield Value("name of a call", function["name"], at)
        arguments = function["arguments"]
        for text in _leaves(json.loads(arguments) if isinstance(arguments, str) else arguments):
            yield Value("argument", text, at)
        if "id" in call:
            yield Value("id of a call", call["id"], at)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)


def places(wanted_values: list[Value], text: str) -> list[tuple[Value, tuple[int, int]]]:
    """Returns the values that are in a text with their spans, in the order of the text.

    What is written once comes first, in the order of the messages. Another value of a message is
    between the texts of the messages before and after it, and nothing is found twice: a declared
    tool, its call and its result have the same name.
    """
    at = _in_order([value for value in wanted_values if value.kind in _ANCHORS], text)
    used, order = {span for _, span in at}, [value.message for value, _ in at]
    starts, ends = [0, *(end for _, (_, end) in at)], [*(start for _, (start, _) in at), len(text)]
    for value in sorted(wanted_values, key=lambda value: value.message < 0):
        if value.kind in _ANCHORS:
            continue
        start, end = 0, len(text)
        if value.message >= 0:
            start = starts[bisect_left(order, value.message)]
            end = ends[bisect_right(order, value.message)]
        span = next((s for s in _spans(value, text, start, end) if s not in used), None)
        if span is not None:
            at.append((value, span))
            used.add(span)
    return sorted(at, key=lambda pair: pair[1])


def _in_order(wanted_values: list[Value], text: str) -> list[tuple[Value, tuple[int, int]]]:
    """Returns the longest sequence of values that a text has in their order.

    Of two, that with more results: text beside a call is written behind its result more often.
    """
    spans = [[*islice(_spans(value, text, 0, len(text)), _OFTEN)] for value in wanted_values]
    pairs = [(value, each[0]) for value, each in zip(wanted_values, spans, strict=True) if each]
    if all(len(each) < 2 for each in spans) and all(a[1][1] <= b[1][0] for a, b in pairwise(pairs)):
        return pairs  # nearly always
    ends: list[list[tuple[Value, tuple[int, int]]]] = []  # the best sequence to each place
    for value, each in zip(wanted_values, spans, strict=True):
        new = []
        for span in each:
            before = [one for one in ends if one[-1][1][1] <= span[0]]
            new.append([*max(before, key=_weight, default=[]), (value, span)])
        ends += new
    return max(ends, key=_weight, default=[])


def _weight(sequence: list[tuple[Value, tuple[int, int]]]) -> tuple[int, int]:
    return len(sequence), sum(value.kind == "result" for value, _ in sequence)


def moved(
    values: list[Value], text: str, spans: Iterable[tuple[Value, tuple[int, int]]]
) -> list[tuple[Value, tuple[int, int]]]:
    """Returns texts that `places` did not find, which are written in another place."""
    spans_by_value = dict(spans)
    out = []
    for value in values:
        if value not in spans_by_value and value.kind in _TEXTS:
            free = (
                (a, b)
                for a, b in _spans(value, text, 0, len(text))
                if all(b <= start or end <= a for start, end in spans_by_value.values())
            )
            if (span := next(free, None)) is not None:
                spans_by_value[value] = span
                out.append((value, span))
    return out


def _spans(value: Value, text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields the spans of a value in a part of a text, white space around it left out."""
    for spelled in spellings(value.text.strip()):
        at = text.find(spelled, start, end)
        while at >= 0:
            yield at, at + len(spelled)
            at = text.find(spelled, at + len(spelled), end)


@lru_cache(4096)  # most texts are those of the shipped conversations
def spellings(text: str) -> tuple[str, ...]:
    """Returns how a template may write a text: as it is, or inside of a string of JSON or Python.

    Arguments as a JSON string are JSON twice.
    """
    as_json = [json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]]
    twice = [json.dumps(one, ensure_ascii=False)[1:-1] for one in as_json]
    return (*dict.fromkeys((text, *as_json, repr(text)[1:-1], *twice)),)
