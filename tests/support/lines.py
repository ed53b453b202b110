"""Lines of JSONL for what reads them: limits, lines of any kind, and lines that were traps once."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

import mypt_spec
from mypt_spec import Limits
from mypt_spec.rules.context import ToolSchema
from tests.support.strategies import (
    ANY_JSON,
    FAULTS,
    almost_records,
    broken_records,
    clean_text,
    lines_of,
    mutated,
    records,
)

LIMITS = st.sampled_from(
    [
        Limits(), Limits(phase=1), Limits(phase=3), Limits(phase=4), Limits(max_tokens=60), Limits(max_tokens=400),
        Limits(tools=frozenset({"search"})), Limits(schemas=(ToolSchema("n", '{"required": ["x"]}', '{"type": "string"}'), ToolSchema("search", "", '{"type": "string"}'))), Limits(phase=5, max_tokens=2000, tools=frozenset({"n"})),
    ]
)  # fmt: skip


def any_lines(name: str) -> st.SearchStrategy[bytes]:
    """Lines of any kind: legal records, broken ones, other JSON, and bytes."""
    legal = records(name).flatmap(lines_of)
    warned = records(name, clean=False).flatmap(lines_of)
    broken = (
        broken_records(name).flatmap(lambda pair: lines_of(pair[0]))
        if name in FAULTS
        else st.nothing()
    )
    almost = almost_records(name).flatmap(lines_of)
    return st.one_of(
        legal,
        warned,
        broken,
        almost,
        mutated(legal),
        mutated(legal),
        ANY_JSON.flatmap(lines_of),
        st.binary(max_size=20),
    )


@st.composite
def tagged_lines(draw: st.DrawFn, name: str) -> bytes:
    """Draws clean records with tags, pieces of tags and almost-tags in their texts: typed thoughts,
    calls, ends of turns.
    """
    table = mypt_spec.dialect(name).table
    shown = st.sampled_from(
        [t.spell(tuple((key, "n") for key in t.patterns)) for t in table.terminals.values()]
    )
    pieces = (
        shown
        | shown.map(str.upper)
        | shown.map(lambda tag: tag[:-1])
        | clean_text(name)
        | st.sampled_from([" ", "\n", '{"name": "n", "q": 1}', "{}"])
    )
    record = draw(lifted(name, json.loads(json.dumps(draw(records(name))))))
    for _ in range(draw(st.integers(1, 2))):
        message = draw(st.sampled_from([record, *record["messages"]]))
        keys = [key for key, value in message.items() if isinstance(value, str) and key != "role"]
        if keys:
            text = "".join(draw(st.lists(pieces, min_size=1, max_size=5)))
            message[draw(st.sampled_from(keys))] = text
    return draw(lines_of(record))


@st.composite
def lifted(draw: st.DrawFn, name: str, record: Any) -> Any:
    """Draws the record, or the same one with the text of a top-level key as its first message."""
    for role, key in mypt_spec.dialect(name).adapter.SCHEMA.lifted.items():
        if isinstance(record.get(key), str) and draw(st.booleans()):
            record["messages"].insert(0, {"role": role, "content": record.pop(key)})
    return record


USER = '{"role": "user", "content": "u"}'
ANSWER = '{"role": "assistant", "content": "a"}'


def chat_text(more: str = "", *, system: str = '"s"', messages: str = f"{USER}, {ANSWER}") -> str:
    return f'{{"system": {system}, "messages": [{messages}]{more}}}'


def tool_text(
    arguments: str = "{}", result: str = "1", name: str = "t", system: str = '"s"'
) -> str:
    call = f'{{"role": "assistant_toolcall", "name": "t", "arguments": {arguments}}}'
    return chat_text(
        system=system,
        messages=f'{USER}, {call}, {{"role": "toolresult", "name": "{name}", "content": {result}}}, {ANSWER}',
    )


TRAPS = [
    chat_text(system='"s", "system": "s"'),
    chat_text(messages='{"role": "user", "content": "u", "content": "u"}, ' + ANSWER),
    chat_text(
        messages=r'{"role": "user", "content": "u", "context": "c", "c\u006fntext": "d"}, ' + ANSWER
    ),
    chat_text(', "x": "y"'),
    chat_text(', "_x": 1, "_x": 2'),
    chat_text(', "_x": {"a": 1, "a": 2}'),
    chat_text(', "_x": NaN'),
    chat_text(', "_x": 1e999'),
    chat_text(r', "_x": "\ud800"'),
    chat_text(', "_x": ' + "[" * 300 + "]" * 300),
    chat_text(', "_x": ' + "1" * 5000),
    chat_text(messages=r'{"role": "user", "content": "\u003cmyPT_eot>"}, ' + ANSWER),
    chat_text(messages=r'{"role": "user", "content": "\u003cMyPT_eot>"}, ' + ANSWER),
    chat_text(', "language": "no language"'),
    chat_text(system='""'),
    chat_text(system=r'"\u2003"'),
    tool_text(system='"<myPT_toolcall>x</myPT_toolcall>- foo(x)"'),
    tool_text(system=r'"- bar(x)\n<myPT_toolcall>\n- t(x)</myPT_toolcall>"'),
    tool_text(system=r'"- a(x)\r- t(x)"'),
    tool_text(r'{"a": 1, "\u0061": 1}'),
    tool_text('{"<myPT_eot>": 1}'),
    tool_text(result='["<myPT_eot>"]'),
    tool_text(name="v"),
    chat_text(messages=f'{USER}, {{"role": "assistant", "content": "<myPT_cite>c</myPT_cite>"}}'),
    chat_text(messages=f'{USER}, {{"role": "assistant", "content": " <myPT_cite>c</myPT_cite> "}}'),
    chat_text(messages=""),
    chat_text(messages=USER),
    chat_text() + "\r",
    chat_text() + " x",
    chat_text() * 2,
    "\ufeff" + chat_text(),
    "",
    " ",
    "null",
]
