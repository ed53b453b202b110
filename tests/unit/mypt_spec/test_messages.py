"""Records of messages and tools, in two formats of a few tags: blocks inside of blocks, and a row of
blocks with attributes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt_spec import Dialect, SpecError
from mypt_spec.adapters.messages import Messages
from mypt_spec.bodies.strict_json import loads

HEAD = """[dialect]
name = "NAME"
title = "T"
doc = "D"
base_vocabulary = "gpt2"
first_special_id = 50257
pad_vocabulary_to = 64
layouts = { compact = "" }
turn_opener = "user"
"""
NESTED = """start: system? (user (call results)* answer)+
system: SYSTEM TEXT* (TOOLS TEXT+ TOOLS_END)? END
user: USER TEXT* END
results: USER (RESULT TEXT* RESULT_END)+ END
call: ASSISTANT thought? TEXT* (CALL TEXT+ CALL_END)+ END
answer: ASSISTANT thought? TEXT* END
thought: THINK TEXT* THINK_END
%declare SYSTEM TOOLS TOOLS_END USER RESULT RESULT_END ASSISTANT CALL CALL_END THINK THINK_END END TEXT
"""
FLAT = """start: system? tools? (user step* FINAL TEXT+ END)+
system: SYSTEM TEXT* END
tools: TOOLS TEXT+ END
user: USER TEXT* END
step: THINK TEXT* END | SAID TEXT+ END | CALL TEXT+ END | RESULT TEXT* END
%declare SYSTEM TOOLS USER FINAL THINK SAID CALL RESULT END TEXT
"""
NESTED_BLOCKS = """shape = "messages"

[blocks]
system = "system"
tools = "system/tools"
user = "user"
thought = "assistant/think"
answer = "assistant"
call = "assistant/call"
result = "user/result"
"""
FLAT_BLOCKS = """shape = "messages"

[blocks]
system = "system"
tools = "tools"
user = "user"
thought = "think"
said = "said"
call = "call"
answer = "final"
result = "result"
"""


def row(name: str, what: str, *, attr: str = "", body: str = "text", loss: int = 0) -> str:
    pieces = f'{{ special = "<{name.lower()}>" }}'
    for key in attr.split():
        pieces += f', {{ text = " {key}=" }}, {{ attr = "{key}", pattern = "[a-z0-9_]+" }}'
    pieces += ', { text = ":" }' if attr else ""
    more = f'opens = "{what}"\nbody = "{body}"' if isinstance(what, str) else f"closes = {what}"
    origin = "model" if loss else "system"
    return (
        f'[[terminal]]\nname = "{name}"\nspelling = [{pieces}]\n{more}\nloss = {loss}\n'
        f'origin = "{origin}"\nphase = 1\ndoc = "D."\n\n'
    )


NESTED_ROWS = "".join([
    row("SYSTEM", "system"), row("USER", "user"), row("TOOLS", "tools", body="tool_lines"),
    row("TOOLS_END", ["tools"]), row("RESULT", "result"), row("RESULT_END", ["result"]),
    row("ASSISTANT", "assistant", loss=1), row("CALL", "call", body="function", loss=1),
    row("CALL_END", ["call"], loss=1), row("THINK", "think", loss=1),
    row("THINK_END", ["think"], loss=1), row("END", ["system", "user", "assistant"], loss=1),
])  # fmt: skip
FLAT_ROWS = "".join([
    row("SYSTEM", "system"), row("USER", "user"), row("TOOLS", "tools", body="tool_list"),
    row("THINK", "think", loss=1), row("SAID", "said", loss=1), row("FINAL", "final", loss=1),
    row("CALL", "call", attr="name id", body="arguments", loss=1),
    row("RESULT", "result", attr="name id"),
    row("END", ["system", "user", "tools", "think", "said", "final", "call", "result"], loss=1),
])  # fmt: skip


def made(folder: Path, name: str, grammar: str, rows: str, records: str) -> Dialect:
    folder = folder / name
    folder.mkdir()
    (folder / f"{name}.lark").write_text(grammar)
    (folder / "tokens.toml").write_text(HEAD.replace("NAME", name) + "\n" + rows)
    (folder / "records.toml").write_text(records)
    return mypt_spec.load(folder)


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Dialect:
    return made(tmp_path_factory.mktemp("n"), "nested", NESTED, NESTED_ROWS, NESTED_BLOCKS)


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> Dialect:
    return made(tmp_path_factory.mktemp("f"), "flat", FLAT, FLAT_ROWS, FLAT_BLOCKS)


Record = dict[str, Any]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def call(name: str, arguments: object, ident: str = "") -> Record:
    made: Record = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return {"id": ident} | made if ident else made


def chat(*messages: Record, **more: object) -> Record:
    return {"messages": list(messages)} | more


USER = {"role": "user", "content": "u"}
CALLS = [call("f", {"q": 1}, "a"), call("g", {}, "b")]
ASKED = {"role": "assistant", "reasoning_content": "t", "content": "I ask.", "tool_calls": CALLS}
TOLD = [
    {"role": "tool", "tool_call_id": "a", "name": "f", "content": "4", "_x": 1},
    {"role": "tool", "tool_call_id": "b", "content": ""},
]
FULL = chat(
    {"role": "system", "content": "s"},
    USER,
    ASKED,
    *TOLD,
    {"role": "assistant", "content": "Four.", "_y": 2},
    tools=[TOOL],
    language="en",
)


def test_the_text_of_nested_blocks(nested: Dialect) -> None:
    episode, findings = nested.check(FULL)
    assert [f.code for f in findings] == ["MYP313"], "no tool is called g"
    assert nested.serialize(episode) == (
        '<system>s<tools>{"type": "function", "function": {"name": "f", "parameters": '
        '{"type": "object"}}}<tools_end><end><user>u<end><assistant><think>t<think_end>I ask.'
        '<call>{"name": "f", "arguments": {"q": 1}}<call_end>'
        '<call>{"name": "g", "arguments": {}}<call_end><end>'
        "<user><result>4<result_end><result><result_end><end><assistant>Four.<end>"
    )


def test_the_text_of_a_row_of_blocks(flat: Dialect) -> None:
    episode, findings = flat.check(FULL)
    assert [f.code for f in findings] == ["MYP313"], "no tool is called g"
    assert flat.serialize(episode) == (
        '<system>s<end><tools>[{"type": "function", "function": {"name": "f", "parameters": '
        '{"type": "object"}}}]<end><user>u<end><think>t<end><said>I ask.<end>'
        '<call> name=f id=a:{"q": 1}<end><call> name=g id=b:{}<end><result> name=f id=a:4<end>'
        "<result> name=g id=b:<end><final>Four.<end>"
    )


def test_the_record_comes_back(nested: Dialect, flat: Dialect) -> None:
    episode, _ = nested.read(FULL)
    assert nested.write(episode) == FULL, "ids, names and notes too, though no text has them"
    episode, _ = flat.read(FULL)
    assert flat.write(episode) == FULL | {
        "messages": [
            m | {"name": "g"} if m.get("tool_call_id") == "b" else m for m in FULL["messages"]
        ]
    }, "a tag has the name of the tool"


texts = st.text("ab \n", max_size=5)
names = st.sampled_from(["f", "g"])


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Records of all forms; those of the first format have a text in each answer."""
    messages: list[Record] = []
    ids = iter("abcdefghijkl")
    with_ids = draw(st.booleans())

    def thought() -> Record:
        key = draw(st.sampled_from(["", "reasoning_content", "thinking", "reasoning"]))
        return {key: draw(texts)} if key else {}

    if draw(st.booleans()):
        messages.append({"role": "system", "content": draw(texts)})
    for _ in range(draw(st.integers(1, 2))):
        messages.append({"role": "user", "content": draw(texts)})
        for _ in range(draw(st.integers(0, 2))):
            calls = [
                call(draw(names), draw(st.dictionaries(texts, texts, max_size=2)), next(ids) if with_ids else "")
                for _ in range(draw(st.integers(1, 2)))
            ]  # fmt: skip
            for one in calls:
                if draw(st.booleans()):
                    one["function"]["arguments"] = json.dumps(one["function"]["arguments"])
            content = draw(st.sampled_from([{}, {"content": None}, {"content": "x"}]))
            messages.append({"role": "assistant", "tool_calls": calls} | content | thought())
            for one in calls:
                result = {"role": "tool", "content": draw(texts)}
                result |= {"tool_call_id": one["id"]} if with_ids else {}
                result |= {"name": one["function"]["name"]} if draw(st.booleans()) else {}
                messages.append(result | ({"_n": 1} if draw(st.booleans()) else {}))
        messages.append({"role": "assistant", "content": "a" + draw(texts)} | thought())
    return chat(*messages) | ({"tools": [TOOL]} if draw(st.booleans()) else {})


@given(records())
def test_any_record_comes_back(nested: Dialect, record: Record) -> None:
    given_as = json.dumps(record)
    episode, findings = nested.check(record)
    assert {f.code for f in findings} <= {"MYP313", "MYP314"}
    back = nested.write(episode)
    assert nested.read(back) == (episode, [])
    assert json.dumps(nested.write(nested.read(back)[0])) == json.dumps(back)
    assert json.dumps(record) == given_as, "reading changes nothing"
    first = record["messages"][0]
    vanished = "tools" in record and first == {"role": "system", "content": ""}
    for message, made in zip(record["messages"][vanished:], back["messages"], strict=True):
        for one in message.get("tool_calls", ()):
            if isinstance(one["function"]["arguments"], str):
                one["function"]["arguments"] = json.loads(one["function"]["arguments"])
        said = {"thinking": "reasoning_content", "reasoning": "reasoning_content"}
        kept = {said.get(k, k): v for k, v in message.items() if v is not None}
        assert made == kept
    text = nested.serialize(episode)
    assert nested.parse(text)[0] == episode
    assert nested.serialize(nested.read(nested.write(nested.parse(text)[0]))[0]) == text


NAMELESS = {"type": "function", "function": {"name": "g", "arguments": {}}}  # without an id


def broken(*, at: int, **change: object) -> Record:
    record = json.loads(json.dumps(FULL))
    record["messages"][at] |= change
    return record


@pytest.mark.parametrize(
    ("record", "code", "pointer"),
    [
        (broken(at=3, tool_call_id="z"), "MYP310", "/messages/3/tool_call_id"),
        (broken(at=3, tool_call_id="b"), "MYP312", "/messages/3/tool_call_id"),
        (broken(at=2, tool_calls=[CALLS[0], NAMELESS]), "MYP310", "/messages/4/tool_call_id"),
        (broken(at=3, name="g"), "MYP312", "/messages/3/name"),
        (broken(at=2, tool_calls=CALLS[:1]), "MYP310", "/messages/4/content"),
        (broken(at=2, tool_calls=[*CALLS, call("h", {})]), "MYP311",
         "/messages/2/tool_calls/2/function"),
        (broken(at=2, tool_calls=[call("f", "[1]"), CALLS[1]]), "MYP104",
         "/messages/2/tool_calls/0/function/arguments"),
        (broken(at=2, tool_calls=[{"name": "f", "arguments": {}}]), "MYP102", "/messages/2/tool_calls/0"),
        (broken(at=2, tool_calls=[CALLS[0], CALLS[0]]), "MYP351", "/messages/2/tool_calls/1/id"),
        (broken(at=2, thinking="other"), "MYP121", "/messages/2/thinking"),
        (broken(at=1, weight=0), "MYP103", "/messages/1/weight"),
        (broken(at=0, role="developer"), "MYP109", "/messages/0/role"),
        (broken(at=5, content=None), "MYP102", "/messages/5"),
        (FULL | {"tools": [{"function": {}}]}, "MYP102", "/tools/0/function"),
        (FULL | {"tools": []}, "MYP125", "/tools"),
    ],
)  # fmt: skip
def test_findings_are_at_the_users_values(
    nested: Dialect, record: Record, code: str, pointer: str
) -> None:
    _, findings = nested.check(record)
    assert (code, pointer) in [(f.code, f.pointer) for f in findings]


def test_results_may_come_in_any_order_where_the_text_has_ids(flat: Dialect) -> None:
    record = chat(USER, ASKED, *reversed(TOLD), {"role": "assistant", "content": "a"})
    episode, findings = flat.check(record)
    assert [f.code for f in findings] == []
    assert "<result> name=g id=b:<end><result> name=f id=a:4<end>" in flat.serialize(episode)


def test_reading_finds_results_of_no_call_where_the_text_has_ids(flat: Dialect) -> None:
    """Who only reads, as for a prompt, must not write a result that names no call."""
    calls = [call("f", {}) | {"id": "a"}, call("f", {}) | {"id": "b"}]
    asked = {"role": "assistant", "content": "", "tool_calls": calls}
    told = [{"role": "tool", "tool_call_id": i, "content": "4"} for i in ("b", "z")]
    record = chat(USER, asked, *told, {"role": "assistant", "content": "a"})
    assert [(f.code, f.pointer) for f in flat.read(record)[1]] == [
        ("MYP310", "/messages/3/tool_call_id")
    ]
    assert [f.code for f in flat.check(record)[1]].count("MYP310") == 1


def test_tools_may_be_json_text_and_keys_null(nested: Dialect) -> None:
    record = FULL | {"tools": json.dumps([TOOL])}
    record["messages"] = [
        m | {"tool_calls": None, "reasoning": None} if m["role"] == "assistant" and m is not ASKED else m
        for m in FULL["messages"]
    ]  # fmt: skip
    assert nested.check(record) == nested.check(FULL)


@pytest.mark.parametrize(
    ("line", "pointer"),
    [
        ('{"messages": [U, A], "messages": [U, A]}', "/messages"),
        ('{"messages": [U, A], "tools": null, "tools": null}', "/tools"),
        ('{"messages": [{"role": "user", "content": "a", "content": "b"}, A]}', "/messages/0/content"),
        ('{"messages": [U, {"role": "assistant", "content": "a", "name": "b", "name": null}]}', "/messages/1/name"),
    ],
)  # fmt: skip
def test_a_key_that_occurs_twice_is_found(nested: Dialect, line: str, pointer: str) -> None:
    user, answer = (f'{{"role": "{role}", "content": "a"}}' for role in ("user", "assistant"))
    record = loads(line.replace("U,", user + ",").replace("A]", answer + "]"))
    found = nested.check(record)[1]
    assert [f.pointer for f in found if f.code == "MYP004"] == [pointer]


def test_these_records_name_no_format(nested: Dialect) -> None:
    assert isinstance(nested.adapter, Messages)
    assert nested.adapter.splits


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('user = "user"\n', "", 'expected "user" and "answer"'),
        ("system/tools", "system/nothing", "no block 'system/nothing'"),
        ('call = "assistant/call"', 'call = "assistant/think"', "its body is 'text'"),
        ('result = "user/result"\n', "", "a call needs a result"),
        ("[blocks]", 'begin = "bos"\n[blocks]', "no mark 'bos'"),
        ("[blocks]", "[block]", "unknown key block"),
        ('"messages"', '"mesages"', 'expected "messages"'),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        made(tmp_path, "wrong", NESTED, NESTED_ROWS, NESTED_BLOCKS.replace(old, new))


SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}


@pytest.mark.parametrize("name", ["qwen3", "mistral", "mistral-v13", "llama3", "harmony"])
def test_calls_are_held_to_the_tools_of_their_record(name: str) -> None:
    """In a record the finding is at the name; in a text the same calls are found."""
    d = mypt_spec.dialect(name)
    calls = [
        {
            "id": f"call{n:05}",
            "type": "function",
            "function": {"name": called, "arguments": {"q": "x"}},
        }
        for n, called in enumerate(["find", "other"][name in ("llama3", "harmony") :])
    ]
    answers = [{"role": "tool", "tool_call_id": c["id"], "content": "4"} for c in calls]
    record = {
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "tool_calls": calls},
            *answers,
            {"role": "assistant", "content": "Yo."},
        ],
        "tools": [{"type": "function", "function": {"name": "find", "parameters": SCHEMA}}],
    }

    def unknown(found: list[mypt_spec.Finding]) -> list[mypt_spec.Finding]:
        return [finding for finding in found if finding.code == "MYP313"]

    episode, found = d.check(record)
    (finding,) = unknown(found)
    assert finding.pointer == f"/messages/1/tool_calls/{len(calls) - 1}/function/name"
    assert (finding.message, finding.help) == (
        "the tool 'other' is declared nowhere",
        "declared are find",
    )
    assert episode is not None
    again, _ = d.parse(d.serialize(episode))
    assert again is not None
    assert len(unknown(d.validate(again))) == 1
    also = mypt_spec.Limits(tools=frozenset({"other"}))
    assert not unknown(d.validate(episode, limits=also)), "the settings declare it, too"
    del record["tools"]
    assert not unknown(d.check(record)[1]), "nothing is declared"
