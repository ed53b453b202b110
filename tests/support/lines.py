"""Lines of JSONL for what reads them: limits, lines of any kind, and lines that were traps once."""

from __future__ import annotations

import json
from random import Random

from hypothesis import strategies as st

import mypt_spec
from mypt_spec import Limits
from mypt_spec.rules.context import ToolSchema
from tests.support.broken_records import FAULTS, broken
from tests.support.maker import Maker, any_json, drawn, line
from tests.support.strategies import almost_record, legal, mutate

LIMITS = st.sampled_from(
    [
        Limits(), Limits(phase=1), Limits(phase=3), Limits(phase=4), Limits(max_tokens=60), Limits(max_tokens=400),
        Limits(tools=frozenset({"search"})), Limits(schemas=(ToolSchema("n", '{"required": ["x"]}', '{"type": "string"}'), ToolSchema("search", "", '{"type": "string"}'))), Limits(phase=5, max_tokens=2000, tools=frozenset({"n"})),
    ]
)  # fmt: skip


def any_lines(name: str) -> st.SearchStrategy[bytes]:
    """Lines of any kind: legal records, broken ones, tags in texts, other JSON, and bytes."""
    return drawn(lambda random: any_line(random, name))


def any_line(random: Random, name: str) -> bytes:
    """Returns a line of any kind."""
    kind = random.randrange(8)
    if kind == 0:
        return bytes(random.randrange(256) for _ in range(random.randrange(20))).replace(b"\n", b"")
    if kind == 1:
        return line(random, any_json(random))
    if kind == 2:
        return line(random, almost_record(random, name))
    if kind == 3 and name in FAULTS:
        return line(random, broken(random, name, legal(random, name))[0])
    if kind == 4:
        return tagged_line(random, name)
    sound = line(random, legal(random, name, clean=random.choice((True, False))))
    return sound if kind < 6 else mutate(random, sound)


def tagged_lines(name: str) -> st.SearchStrategy[bytes]:
    """Clean records with tags, pieces of tags and almost-tags in their texts: typed thoughts,
    calls, ends of turns.
    """
    return drawn(lambda random: tagged_line(random, name))


def tagged_line(random: Random, name: str) -> bytes:
    """Returns a clean record in whose texts tags are typed, as a line."""
    make, table = Maker(random, name), mypt_spec.dialect(name).table
    tags = [t.spell(tuple((key, "n") for key in t.patterns)) for t in table.terminals.values()]
    record = json.loads(json.dumps(legal(random, name)))
    for role, key in mypt_spec.dialect(name).adapter.SCHEMA.lifted.items():
        if isinstance(record.get(key), str) and make.one_in(2):
            record["messages"].insert(0, {"role": role, "content": record.pop(key)})

    def piece() -> str:
        tag = make.choice(tags)
        other = (" ", "\n", '{"name": "n", "q": 1}', "{}", make.text())
        return make.choice((tag, tag, tag.upper(), tag[:-1], make.text(), make.choice(other)))

    for _ in make.some(1, 2):
        message = make.choice([record, *record["messages"]])
        keys = [key for key, value in message.items() if isinstance(value, str) and key != "role"]
        if keys:
            message[make.choice(keys)] = "".join(piece() for _ in make.some(1, 5))
    return line(random, record)


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
