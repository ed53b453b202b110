"""Reads what answers hold as text: calls between tags or in brackets, results, and thoughts.

Much data is made by a chat template and kept so: a call, its result and a thought are between tags
(written.toml). Input is a `Chat` as its record has it; output is one in which these are calls,
results and thoughts. Calls are looked for only where the record declares tools, or a result
follows: elsewhere they may be what a text is about. What cannot be read is left as it is, or is a
finding.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from mypt_records.chat import Call, Chat, JsonText, JsonValue, Message, Text, Tool
from mypt_records.prefilter import Needle, prefilter
from mypt_records.reading import Reader
from mypt_spec.bodies.strict_json import Fault, loads
from mypt_spec.compiled.toml import load
from mypt_spec.findings import Finding
from mypt_spec.memo import lazy_re

CALLS, THOUGHTS = "call", "think"  # steps that may be read, where the target has them
BETWEEN = load(Path(__file__).with_suffix(".toml"))
CALL, THOUGHT_TAGS = BETWEEN["call"][0], BETWEEN["thought"]


def _between(kind: str, inside: str = "(.*?)") -> re.Pattern[str]:
    """Returns what finds the text between the tags of a kind, without line ends around it."""
    opening, closing = map(re.escape, BETWEEN[kind])
    return lazy_re(rf"{opening}{inside}{closing}".replace("OPENING", opening), re.DOTALL)


_CALL, _TOOLS = _between("call"), _between("tools")
_RESULT = _between("result", r"\n?(.*?)\n?")
_THOUGHT = _between("thought", r"\n?((?:(?!OPENING).)*?)\n?")
_BRACKETS = lazy_re(r"\s*\[\s*[A-Za-z_][^\[\](){}\"']*\(.*\)\s*\]\s*\Z", re.DOTALL)
_NAME = lazy_re(r"(?<=[\[,])\s*([A-Za-z_][^\[\](){},\"'=]*)\(")


def _needles() -> Iterator[Needle]:
    yield from (CALL, BETWEEN["result"][0])
    # A text that begins with a bracket, or with white space.
    yield "\0["
    yield from (f"\0{c}" for c in map(chr, range(0x3001)) if c.isspace())


@prefilter(needles=_needles)
def _may_hold_calls(text: str) -> bool:
    """Returns whether a text may hold calls or results."""
    return CALL in text or BETWEEN["result"][0] in text or bool(_BRACKETS.match(text))


def read_out(chat: Chat, kinds: Collection[str] = (CALLS,)) -> Chat:
    """Returns a chat in which calls and thoughts that answers hold as text are such."""
    sides, extra = [chat.messages, chat.rejected], list[Finding]()
    tools = chat.tools
    if CALLS in kinds:
        tools = _declared(chat) if tools is None else tools
        sides = [tuple(_with_calls(side, extra, declared=tools is not None)) for side in sides]
    if THOUGHTS in kinds:
        sides = [tuple(map(_with_thoughts, side)) for side in sides]
    messages, rejected = sides
    if [*map(id, messages + rejected)] == [*map(id, chat.messages + chat.rejected)]:
        return chat
    extra[:0] = chat.findings
    return replace(chat, messages=messages, rejected=rejected, tools=tools, findings=tuple(extra))


def _declared(chat: Chat) -> tuple[Tool, ...] | None:
    """Returns the tools that a system prompt declares between tags; None where it does not."""
    for message in chat.messages:
        for text in message.content or () if message.role in ("system", "developer") else ():
            match = _TOOLS.search(text.text)
            if match is not None:
                return tuple(_tools(match[1], match.start(1), text.at))
    return None


def _tools(body: str, start: int, at: str) -> Iterator[Tool]:
    """Yields the tools of a text that begins at `start` of the string at a pointer.

    They are a list, or one on a line. What is no JSON declares nothing that could be held to.
    """
    pieces = [(start, body)] if body.lstrip().startswith("[") else []
    for line in () if pieces else body.split("\n"):
        pieces += [(start - 1, f"[{line}]")] if line.strip() else []
        start += len(line) + 1
    for begin, piece in pieces:
        for tool in Reader().tools(piece, at) or ():
            name, schema = tool.name, tool.parameters
            yield tool._replace(
                name=name and replace(name, outer=_moved(name.outer, begin)),
                parameters=schema and replace(schema, outer=_moved(schema.outer, begin)),
            )


def _moved(outer: JsonText | None, start: int) -> JsonText | None:
    return outer and outer._replace(start=start)


def _with_calls(
    messages: tuple[Message, ...], findings: list[Finding], *, declared: bool
) -> Iterator[Message]:
    for message, following in pairwise((*messages, None)):
        assert message is not None
        text = message.content[0] if message.content and len(message.content) == 1 else None
        answered = following is not None and following.role == "tool"
        if text is None:
            yield message
        elif message.role == "tool" and BETWEEN["result"][0] in text.text:
            yield from _results(message, text)
        elif message.role != "assistant" or message.calls:
            yield message
        elif declared and CALL in text.text:
            yield _tagged(message, text, findings)
        elif answered and _BRACKETS.match(text.text):
            yield _bracketed(message, text, findings)
        else:
            yield message


def _tagged(message: Message, text: Text, findings: list[Finding]) -> Message:
    """Returns an answer whose text ends with calls between tags as one with these calls."""
    blocks = [*_CALL.finditer(text.text)]
    if not blocks or _CALL.sub("", text.text[blocks[0].start() :]).strip():
        return message
    calls = [_call(block[1], block.start(1), text.at, findings) for block in blocks]
    return _calling(message, text, blocks[0].start(), calls)


def _calling(message: Message, text: Text, end: int, calls: Iterable[Call | None]) -> Message:
    spoken = text.text[:end].rstrip()
    content = (replace(text, text=spoken),) if spoken else None
    return replace(message, content=content, calls=tuple([c for c in calls if c is not None]))


def _call(body: str, start: int, at: str, findings: list[Finding]) -> Call | None:
    """Returns the call that a text between tags holds; None, with a finding, if it holds none."""
    span = start, start + len(body)
    try:
        value = loads(body)
    except Fault as fault:
        why = fault.message.removeprefix("not JSON: ")
        findings.append(Finding("MYP304", f"the call is not valid JSON: {why}", at, span))
        return None
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str) or not name:
        problem = 'a call must be {"name": "...", "arguments": {...}}'
        findings.append(Finding("MYP104", problem, at, span))
        return None
    arguments = value.get("arguments")
    inside = JsonText(body, "/arguments", start)
    parameters = None if "arguments" not in value else JsonValue(arguments, at, inside)
    return Call(Text(name, at, JsonText(body, "/name", start)), parameters, at)


def _bracketed(message: Message, text: Text, findings: list[Finding]) -> Message:
    """Returns an answer that is a list of calls as Python has them as one with these calls."""
    names: list[str] = []

    def placeholder(match: re.Match[str]) -> str:
        names.append(match[1])
        return f"_{len(names) - 1}("

    try:
        calls = [*_python_calls(_NAME.sub(placeholder, text.text.strip()), names, text.at)]
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        problem = "the calls in brackets cannot be read"
        hint = 'write them as "tool_calls" of the message'
        findings.append(Finding("MYP304", problem, text.at, help=hint))
        calls = []
    return _calling(message, text, 0, calls)


def _python_calls(source: str, names: list[str], at: str) -> Iterator[Call]:
    """Yields the calls of a list; raises ValueError or SyntaxError for anything else."""
    tree = ast.parse(source, mode="eval").body
    for call in tree.elts if isinstance(tree, ast.List) else ():
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise ValueError(source)
        arguments: dict[str, Any] = {}
        for word in call.keywords:
            if word.arg is None:
                raise ValueError(source)
            arguments[word.arg] = ast.literal_eval(word.value)
        yield Call(Text(names[int(call.func.id[1:])].strip(), at), JsonValue(arguments, at), at)


def _results(message: Message, text: Text) -> Iterator[Message]:
    blocks = [*_RESULT.finditer(text.text)]
    if not blocks or _RESULT.sub("", text.text).strip():
        yield message
        return
    for block in blocks:
        inside = replace(text, text=block[1], start=block.start(1))
        yield replace(message, content=(inside,))


def _with_thoughts(message: Message) -> Message:
    """Returns an answer that begins with a thought between tags as one with this thought."""
    first = message.content[0] if message.content else None
    if message.role != "assistant" or message.thoughts or first is None:
        return message
    thought = _THOUGHT.match(first.text, len(first.text) - len(first.text.lstrip()))
    if thought is None or BETWEEN["thought"][0] in first.text[thought.end() :]:
        return message
    remaining = re.sub("\\A\n{0,2}", "", first.text[thought.end() :])
    content = (replace(first, text=remaining), *(message.content or ())[1:])
    if not remaining and message.calls and len(content) == 1:
        return replace(message, thoughts=(Text(thought[1], first.at),), content=None)
    return replace(message, thoughts=(Text(thought[1], first.at),), content=content)
