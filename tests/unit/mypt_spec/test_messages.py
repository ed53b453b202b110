"""Records of messages and tools, in two formats of a few tags: blocks inside of blocks, and a row of
blocks with attributes.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt_spec import Dialect, SpecError
from mypt_spec.adapters.messages import Messages
from mypt_spec.adapters.splitter import splitter
from mypt_spec.bodies.strict_json import loads
from tests.support.build import Record, assistant, call, calls, chat, function, system, tool, user
from tests.support.nested import BLOCKS
from tests.support.tables import GPT2, head, row, special, write_table

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
NESTED_BLOCKS = BLOCKS + 'call = "assistant/call"\nresult = "user/result"\n'
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


def tag(
    name: str, what: str | list[str], *, attr: str = "", body: str = "text", loss: int = 0
) -> str:
    """Returns a row: of a tag that opens a block, or closes those of a list."""
    pieces = []
    for key in attr.split():
        pieces += [f'{{ text = " {key}=" }}', f'{{ attr = "{key}", pattern = "[a-z0-9_]+" }}']
    pieces += ['{ text = ":" }'] if attr else []
    lines = (
        [f'opens = "{what}"', f'body = "{body}"'] if isinstance(what, str) else [f"closes = {what}"]
    )
    return row(name, special(f"<{name.lower()}>", *pieces), *lines, loss=loss)


NESTED_ROWS = "".join([
    tag("SYSTEM", "system"), tag("USER", "user"), tag("TOOLS", "tools", body="tool_lines"),
    tag("TOOLS_END", ["tools"]), tag("RESULT", "result"), tag("RESULT_END", ["result"]),
    tag("ASSISTANT", "assistant", loss=1), tag("CALL", "call", body="function", loss=1),
    tag("CALL_END", ["call"], loss=1), tag("THINK", "think", loss=1),
    tag("THINK_END", ["think"], loss=1), tag("END", ["system", "user", "assistant"], loss=1),
])  # fmt: skip
FLAT_ROWS = "".join([
    tag("SYSTEM", "system"), tag("USER", "user"), tag("TOOLS", "tools", body="tool_list"),
    tag("THINK", "think", loss=1), tag("SAID", "said", loss=1), tag("FINAL", "final", loss=1),
    tag("CALL", "call", attr="name id", body="arguments", loss=1),
    tag("RESULT", "result", attr="name id"),
    tag("END", ["system", "user", "tools", "think", "said", "final", "call", "result"], loss=1),
])  # fmt: skip


def dialect(folder: Path, name: str, grammar: str, rows: str, records: str) -> Dialect:
    table = head(name, GPT2, 'turn_opener = "user"') + "\n" + rows
    return mypt_spec.load(write_table(folder / name, grammar, table, records))


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Dialect:
    return dialect(tmp_path_factory.mktemp("n"), "nested", NESTED, NESTED_ROWS, NESTED_BLOCKS)


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> Dialect:
    return dialect(tmp_path_factory.mktemp("f"), "flat", FLAT, FLAT_ROWS, FLAT_BLOCKS)


TOOL = function("f", additionalProperties=True)
USER, FOUR = user("u"), assistant("Four.")


def called(name: str, arguments: object, ident: str = "") -> Record:
    return ({"id": ident} if ident else {}) | call(name, arguments)


CALLS = [called("f", {"q": 1}, "a"), called("g", {}, "b")]
ASKED = calls(*CALLS, content="I ask.", reasoning_content="t")
TOLD = [tool("4", tool_call_id="a", name="f", _x=1), tool("", tool_call_id="b")]
FULL = chat(system("s"), USER, ASKED, *TOLD, FOUR | {"_y": 2}, tools=[TOOL], language="en")


def test_the_text_of_nested_blocks(nested: Dialect) -> None:
    episode, findings = nested.check(FULL)
    assert [f.code for f in findings] == ["MYP313"], "no tool is called g"
    assert nested.serialize(episode) == (
        '<system>s<tools>{"type": "function", "function": {"name": "f", "parameters": '
        '{"type": "object", "properties": {}, "additionalProperties": true}}}<tools_end><end><user>u<end><assistant><think>t<think_end>I ask.'
        '<call>{"name": "f", "arguments": {"q": 1}}<call_end>'
        '<call>{"name": "g", "arguments": {}}<call_end><end>'
        "<user><result>4<result_end><result><result_end><end><assistant>Four.<end>"
    )


def test_the_text_of_a_row_of_blocks(flat: Dialect) -> None:
    episode, findings = flat.check(FULL)
    assert [f.code for f in findings] == ["MYP313"], "no tool is called g"
    assert flat.serialize(episode) == (
        '<system>s<end><tools>[{"type": "function", "function": {"name": "f", "parameters": '
        '{"type": "object", "properties": {}, "additionalProperties": true}}}]<end><user>u<end><think>t<end><said>I ask.<end>'
        '<call> name=f id=a:{"q": 1}<end><call> name=g id=b:{}<end><result> name=f id=a:4<end>'
        "<result> name=g id=b:<end><final>Four.<end>"
    )


def test_the_record_comes_back(nested: Dialect, flat: Dialect) -> None:
    episode, _ = nested.read(FULL)
    assert nested.write(episode) == FULL, "ids, names and notes too, though no text has them"
    episode, _ = flat.read(FULL)
    named = [m | ({"name": "g"} if m.get("tool_call_id") == "b" else {}) for m in FULL["messages"]]
    assert flat.write(episode) == FULL | {"messages": named}, "a tag has the name of the tool"


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
        messages.append(system(draw(texts)))
    for _ in range(draw(st.integers(1, 2))):
        messages.append(user(draw(texts)))
        for _ in range(draw(st.integers(0, 2))):
            some = [
                called(draw(names), draw(st.dictionaries(texts, texts, max_size=2)), next(ids) if with_ids else "")
                for _ in range(draw(st.integers(1, 2)))
            ]  # fmt: skip
            for one in some:
                if draw(st.booleans()):
                    one["function"]["arguments"] = json.dumps(one["function"]["arguments"])
            content = draw(st.sampled_from([{}, {"content": None}, {"content": "x"}]))
            messages.append({"role": "assistant", "tool_calls": some} | content | thought())
            for one in some:
                result = tool(draw(texts))
                result |= {"tool_call_id": one["id"]} if with_ids else {}
                result |= {"name": one["function"]["name"]} if draw(st.booleans()) else {}
                messages.append(result | ({"_n": 1} if draw(st.booleans()) else {}))
        messages.append(assistant("a" + draw(texts)) | thought())
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
    vanished = "tools" in record and record["messages"][0] == system("")
    thoughts = {"thinking": "reasoning_content", "reasoning": "reasoning_content"}
    for message, written in zip(record["messages"][vanished:], back["messages"], strict=True):
        for one in message.get("tool_calls", ()):
            if isinstance(one["function"]["arguments"], str):
                one["function"]["arguments"] = json.loads(one["function"]["arguments"])
        assert written == {thoughts.get(k, k): v for k, v in message.items() if v is not None}
    text = nested.serialize(episode)
    assert nested.parse(text)[0] == episode
    assert nested.serialize(nested.read(nested.write(nested.parse(text)[0]))[0]) == text


NAMELESS = call("g", {})  # without an id


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
        (broken(at=2, tool_calls=[*CALLS, called("h", {})]), "MYP311",
         "/messages/2/tool_calls/2/function"),
        (broken(at=2, tool_calls=[called("f", "[1]"), CALLS[1]]), "MYP104",
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
    record = chat(USER, ASKED, *reversed(TOLD), FOUR)
    episode, findings = flat.check(record)
    assert [f.code for f in findings] == []
    assert "<result> name=g id=b:<end><result> name=f id=a:4<end>" in flat.serialize(episode)


def test_reading_finds_results_of_no_call_where_the_text_has_ids(flat: Dialect) -> None:
    """Who only reads, as for a prompt, must not write a result that names no call."""
    results = [tool(tool_call_id=ident) for ident in ("b", "z")]
    record = chat(USER, calls(called("f", {}, "a"), called("f", {}, "b")), *results, FOUR)
    (finding,) = flat.read(record)[1]
    assert (finding.code, finding.pointer) == ("MYP310", "/messages/3/tool_call_id")
    assert [f.code for f in flat.check(record)[1]].count("MYP310") == 1


def test_tools_may_be_json_text_and_keys_null(nested: Dialect) -> None:
    record = FULL | {"tools": json.dumps([TOOL])}
    nulls = {"tool_calls": None, "reasoning": None}
    last = FULL["messages"][-1]
    record["messages"] = [m | nulls if m is last else m for m in FULL["messages"]]
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
    findings = nested.check(record)[1]
    assert [f.pointer for f in findings if f.code == "MYP004"] == [pointer]


def test_these_records_name_no_format(nested: Dialect) -> None:
    assert isinstance(nested.adapter, Messages)
    assert splitter(nested.adapter) is not None


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('user = "user"\n', "", 'expected "user" and "answer"'),
        ("system/tools", "system/nothing", "no block 'system/nothing'"),
        ('call = "assistant/call"', 'call = "assistant/think"', "its body is 'text'"),
        ('result = "user/result"\n', "", "a call needs a result"),
        ("[blocks]", 'begin = "bos"\n[blocks]', "no mark 'bos'"),
        ("[blocks]", "[block]", "unknown key block"),
        ('result = "user/result"', "result = 1", '"result": expected a block, or "block/inner'),
        ('"messages"', '"mesages"', 'expected "messages"'),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        dialect(tmp_path, "wrong", NESTED, NESTED_ROWS, NESTED_BLOCKS.replace(old, new))


@pytest.mark.parametrize("name", ["qwen3", "mistral", "mistral-v13", "llama3", "harmony"])
def test_calls_are_held_to_the_tools_of_their_record(name: str) -> None:
    """In a record the finding is at the name; in a text the same calls are found."""
    d = mypt_spec.dialect(name)
    asked = [
        call(tool_name, {"q": "x"}, id=f"call{n:05}")
        for n, tool_name in enumerate(["find", "other"][name in ("llama3", "harmony") :])
    ]
    results = [tool(tool_call_id=one["id"]) for one in asked]
    tools = [function("find", {"q": {"type": "string"}})]
    record = chat(user(), calls(*asked), *results, assistant(), tools=tools)

    def unknown(findings: list[mypt_spec.Finding]) -> list[mypt_spec.Finding]:
        return [finding for finding in findings if finding.code == "MYP313"]

    episode, findings = d.check(record)
    (finding,) = unknown(findings)
    assert finding.pointer == f"/messages/1/tool_calls/{len(asked) - 1}/function/name"
    assert finding.message == "the tool 'other' is declared nowhere"
    assert finding.help == "declared are find"
    assert episode is not None
    again, _ = d.parse(d.serialize(episode))
    assert again is not None
    assert len(unknown(d.validate(again))) == 1
    also = mypt_spec.Limits(tools=frozenset({"other"}))
    assert not unknown(d.validate(episode, limits=also)), "the settings declare it, too"
    del record["tools"]
    assert not unknown(d.check(record)[1]), "nothing is declared"
