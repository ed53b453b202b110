"""Traces of agents, and requests of other servers: each says what the same OpenAI record says."""

from __future__ import annotations

import json
from collections import Counter
from io import BytesIO
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mypt_cli.jsonl.blocks import Source
from mypt_cli.jsonl.layout import EVENT_KEYS, EVENTS, LINES, layout_of
from mypt_cli.jsonl.records import record_blocks
from mypt_convert import Converter
from mypt_lint.run.shape import guessed
from mypt_records.checks import findings
from mypt_records.shapes import read, shape_of
from mypt_records.shapes.tables import tables
from mypt_spec import dialect
from mypt_spec.bodies.strict_json import value_at
from tests.support.examples import examples

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
UPPER = {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}, "required": ["city"]}
TOOL = {"name": "w", "description": "d"}
ROME, DECLARED = '{"city": "Rome"}', {"type": "function", "function": TOOL | {"parameters": SCHEMA}}


def event(kind: str, role: str, content: Any, **more: Any) -> dict[str, Any]:
    session = {} if kind == "message" else {"sessionId": "s"}
    return {"type": kind, **session, "message": {"role": role, "content": content}, **more}


def item(kind: str, **payload: Any) -> dict[str, Any]:
    return {"type": "response_item", "payload": {"type": kind, **payload}}


def said(text: str, kind: str = "text") -> list[dict[str, Any]]:
    return [{"type": kind, "text": text}]


BLOCKS = [
    [{"type": "thinking", "thinking": "T", "signature": "x"}, *said("I look."), {"type": "tool_use", "id": "t", "name": "w", "input": {"city": "Rome"}}],
    [{"type": "tool_result", "tool_use_id": "t", "content": said("sun")}],
]  # fmt: skip
ITEMS: list[dict[str, Any]] = [
    {"type": "reasoning", "summary": said("T", "summary_text")},
    {"type": "message", "role": "assistant", "content": said("I look.", "output_text")},
    {"type": "function_call", "call_id": "t", "name": "w", "arguments": ROME},
    {"type": "function_call_output", "call_id": "t", "output": "sun"},
    {"type": "message", "role": "assistant", "content": said("Sun.", "output_text")},
]
CALL = {"type": "toolCall", "id": "t", "name": "w", "arguments": {"city": "Rome"}}
WEATHER: dict[str, Any] = {
    "anthropic": {
        "system": said("S"), "tools": [TOOL | {"input_schema": SCHEMA}, {"type": "web_search_20250305", "name": "web_search"}],
        "messages": [
            {"role": "user", "content": "Weather?"}, {"role": "assistant", "content": BLOCKS[0]},
            {"role": "user", "content": BLOCKS[1]}, {"role": "assistant", "content": "Sun."},
        ],
    },
    "gemini": {
        "systemInstruction": {"parts": [{"text": "S"}]}, "tools": [{"functionDeclarations": [TOOL | {"parameters": UPPER}]}],
        "contents": [
            {"role": "user", "parts": [{"text": "Weather?"}]},
            {"role": "model", "parts": [{"text": "T", "thought": True}, {"text": "I look."}, {"functionCall": {"id": "t", "name": "w", "args": {"city": "Rome"}}}]},
            {"role": "user", "parts": [{"functionResponse": {"id": "t", "name": "w", "response": "sun"}}]},
            {"role": "model", "parts": [{"text": "Sun."}]},
        ],
    },
    "responses": {"instructions": "S", "tools": [{"type": "function", **TOOL, "parameters": SCHEMA}, {"type": "web_search"}], "input": [{"role": "user", "content": "Weather?"}, *ITEMS[:4]], "output": ITEMS[4:]},
    "atif": {
        "schema_version": "ATIF-v1.6", "agent": {"name": "a", "version": "1", "tool_definitions": [DECLARED]},
        "steps": [
            {"source": "system", "message": "S"}, {"source": "user", "message": "Weather?"},
            {"source": "agent", "message": "I look.", "reasoning_content": "T", "tool_calls": [{"tool_call_id": "t", "function_name": "w", "arguments": {"city": "Rome"}}], "observation": {"results": [{"source_call_id": "t", "content": "sun"}]}},
            {"source": "agent", "message": "Sun."},
        ],
    },
    "claude-code": [
        event("user", "user", "Weather?"), *(event("assistant", "assistant", [block]) for block in BLOCKS[0]),
        event("user", "user", BLOCKS[1]), event("assistant", "assistant", said("Sun.")),
    ],
    "codex": [
        {"type": "session_meta", "payload": {"id": "x", "base_instructions": {"text": "S"}}}, item("message", role="user", content=said("Weather?", "input_text")),
        {"type": "event_msg", "payload": {"type": "user_message", "message": "Weather?"}}, *({"type": "response_item", "payload": i} for i in ITEMS),
    ],
    "pi": [
        {"type": "session", "id": "1", "cwd": "/"}, event("message", "user", said("Weather?")),
        event("message", "assistant", [{"type": "thinking", "thinking": "T"}, *said("I look."), CALL]),
        {"type": "message", "message": {"role": "toolResult", "toolCallId": "t", "toolName": "w", "content": said("sun")}}, event("message", "assistant", said("Sun.")),
    ],
    "sts": [
        {"type": "session", "id": "1", "harness": "h"}, event("message", "system", "S"), event("message", "user", "Weather?"),
        {"type": "message", "message": {"role": "assistant", "content": "I look.", "reasoningContent": "T", "toolCalls": [{"id": "t", "function": {"name": "w", "arguments": ROME}}]}},
        {"type": "message", "message": {"role": "tool", "toolCallId": "t", "content": "sun"}}, event("message", "assistant", "Sun."),
    ],
    "swe-agent": {
        "trajectory": [{"action": "w", "observation": "sun"}], "environment": "swe_main", "info": {},
        "history": [
            {"role": "system", "content": "S", "agent": "main", "message_type": "system_prompt"}, {"role": "user", "content": said("Weather?"), "agent": "main", "message_type": "observation"},
            {"role": "assistant", "content": "I look.", "thought": "I look.", "action": "w", "agent": "main", "thinking_blocks": [{"type": "thinking", "thinking": "T", "signature": "x"}], "tool_calls": [{"id": "t", "type": "function", "function": {"name": "w", "arguments": ROME}}]},
            {"role": "tool", "content": "sun", "agent": "main", "message_type": "observation", "tool_call_ids": ["t"]}, {"role": "assistant", "content": "Sun.", "agent": "main"},
        ],
    },
    "openhands": [
        {"id": "1", "timestamp": "x", "source": "agent", "kind": "SystemPromptEvent", "system_prompt": said("S")[0], "tools": []},
        {"id": "2", "timestamp": "x", "source": "user", "kind": "MessageEvent", "llm_message": {"role": "user", "content": said("Weather?")}, "extended_content": []},
        {"id": "3", "timestamp": "x", "source": "agent", "kind": "ActionEvent", "thought": said("I look."), "reasoning_content": "T", "thinking_blocks": [], "tool_name": "w", "tool_call_id": "t", "tool_call": {"id": "t", "name": "w", "arguments": ROME, "origin": "completion"}},
        {"id": "4", "timestamp": "x", "source": "environment", "kind": "ObservationEvent", "tool_name": "w", "tool_call_id": "t", "observation": {"content": said("sun"), "is_error": False}},
        {"id": "5", "timestamp": "x", "source": "environment", "kind": "ConversationStateUpdateEvent", "key": "stats", "value": {}},
        {"id": "6", "timestamp": "x", "source": "agent", "kind": "MessageEvent", "llm_message": {"role": "assistant", "content": said("Sun.")}},
    ],
    "inspect": {
        "id": "1", "epoch": 1, "input": "Weather?", "target": "Sun.", "events": [], "scores": {},
        "messages": [
            {"id": "a", "role": "system", "content": "S"}, {"id": "b", "role": "user", "source": "input", "content": "Weather?"},
            {"id": "c", "role": "assistant", "source": "generate", "content": [{"type": "reasoning", "reasoning": "T"}, *said("I look.")], "tool_calls": [{"id": "t", "function": "w", "arguments": {"city": "Rome"}}]},
            {"id": "d", "role": "tool", "content": "sun", "tool_call_id": "t", "function": "w"}, {"id": "e", "role": "assistant", "content": "Sun."},
        ],
    },
}  # fmt: skip


@pytest.mark.parametrize("shape", WEATHER)
def test_a_conversation_with_a_call(shape: str) -> None:
    record = WEATHER[shape]
    assert shape_of(record) == shape
    chat = read(record, shape)
    assert [f.code for f in findings(chat)] in ([], ["MYP134"])
    assert [(m.role, m.text) for m in chat.messages if m.role != "system"] == [
        ("user", "Weather?"), ("assistant", "I look."), ("tool", "sun"), ("assistant", "Sun."),
    ]  # fmt: skip
    for _, text in chat.texts():
        assert value_at(record, text.at) == text.text
    out = Converter(shape, "qwen3").record(record)
    assert out.record is not None, out.findings
    assert out.losses == ()
    assert out.record.get("tools", [DECLARED]) == [DECLARED]
    answer = next(m for m in out.record["messages"] if m["role"] == "assistant")
    assert (answer["reasoning_content"], answer["tool_calls"][0]["function"]) == (
        "T", {"name": "w", "arguments": {"city": "Rome"}},
    )  # fmt: skip


def test_every_table_has_a_conversation() -> None:
    assert set(WEATHER) == set(tables())


USER, ANSWER = event("user", "user", "Q"), event("assistant", "assistant", said("A"))
STOP = {"type": "event_msg", "payload": {"type": "turn_aborted"}}
OPEN = event("assistant", "assistant", BLOCKS[0][2:])


@pytest.mark.parametrize(
    ("record", "expected", "roles"),
    [
        ([USER, ANSWER, {"type": "novel"}, {"type": "novel"}], [("MYP280", "/2")], "ua"),
        ([USER, event("assistant", "assistant", [{"type": "novel"}, *said("A")])], [("MYP280", "/1/message/content/0")], "ua"),
        ([USER, ANSWER, event("user", "user", "Summary", isCompactSummary=True), ANSWER], [("MYP281", "/2")], "uaua"),
        ([USER, event("user", "user", "Sub", isSidechain=True), event("assistant", "assistant", said("B"), isSidechain=True), ANSWER], [("MYP283", "/1")], "ua"),
        ([event("user", "user", "Sub", isSidechain=True), event("assistant", "assistant", said("B"), isSidechain=True)], [], "ua"),
        ([USER, OPEN, event("user", "user", said("[Request interrupted by user]")), ANSWER], [("MYP282", "/2/message/content/0/text")], "ua"),
        ([USER, event("assistant", "assistant", [{"type": "redacted_thinking", "data": "x"}]), ANSWER], [("MYP284", "/1/message/content/0")], "ua"),
        ([event("user", "user", "Q", parentUuid="0"), ANSWER, event("user", "user", "R", parentUuid="1"), ANSWER, event("user", "user", "S", parentUuid="1"), ANSWER], [("MYP285", "/4")], "uaua"),
        ([*WEATHER["codex"][:-2], STOP, *WEATHER["codex"][1:2], *WEATHER["codex"][-1:]], [("MYP282", "/6/payload")], "suaua"),
        ([*WEATHER["pi"][:2], event("message", "assistant", []) | {"message": {"role": "assistant", "content": [], "stopReason": "aborted"}}, *WEATHER["pi"][1:2], *WEATHER["pi"][-1:]], [("MYP282", "/2/message")], "ua"),
        ([{"id": "x", "timestamp": "", "instructions": "S", "git": {}}, {"record_type": "state"}, *({"type": "message", "role": role, "content": "x"} for role in ("user", "assistant"))], [], "sua"),
        ([USER, ANSWER, USER], [("MYP287", "/2/message/content")], "ua"),
        ([USER, 4, ANSWER], [("MYP104", "/1")], "ua"),
        ([{"type": "session_meta", "payload": {"id": "x"}}], [("MYP104", "")], ""),
    ],
)  # fmt: skip
def test_what_is_no_part_of_the_conversation(
    record: Any, expected: list[tuple[str, str]], roles: str
) -> None:
    """It is a finding at its event, and other events are read all the same."""
    chat = read(record, shape_of(record))
    assert [(f.code, f.pointer) for f in chat.findings] == expected
    assert "".join(message.role[0] for message in chat.messages) == roles


@pytest.mark.parametrize(
    ("parents", "at"),
    [
        ("0123", None),
        ("0423", "/1"),
        ("0223", "/1"),
        ("5123", None),
        ("4123", "/0"),
        ("0143", "/2"),
        ("3323", "/1"),
    ],
)
def test_events_in_a_circle_are_named(parents: str, at: str | None) -> None:
    """The event is the first of those in the circle, not one that leads there."""
    talk = zip([USER, ANSWER, USER, ANSWER], "1234", parents, strict=True)
    record = [e | {"uuid": ident, "parentUuid": parent} for e, ident, parent in talk]
    found = [f.pointer for f in read(record, "claude-code").findings if "lead back" in f.message]
    assert found == ([] if at is None else [f"{at}/parentUuid"])


def test_an_event_of_no_type_is_called_so() -> None:
    said = [f.message for f in read([USER, ANSWER, {"sessionId": "s"}], "claude-code").findings]
    assert said == ["1 event of an unknown kind, without a type, not read"]


def test_a_stopped_answer_is_context() -> None:
    """It has the weight 0; a call of it that never ran is left out."""
    chat = read([USER, event("assistant", "assistant", BLOCKS[0][1:]), event("user", "user", "[Request interrupted by user]"), USER, ANSWER], "claude-code")  # fmt: skip
    first, stopped, _, last = chat.messages
    assert (stopped.text, stopped.calls, stopped.weight and stopped.weight.value) == ("I look.", (), 0)  # fmt: skip
    assert (first.weight, last.weight) == (None, None)


def test_an_interruption_stops_the_answer_before_it() -> None:
    stop = event("user", "user", "[Request interrupted by user]")
    first, _, stopped, *_ = read(
        [USER, ANSWER, USER, ANSWER, stop, USER, ANSWER], "claude-code"
    ).messages[1:]
    assert (first.weight, stopped.weight and stopped.weight.value) == (None, 0)


@pytest.mark.parametrize(
    ("shape", "question"), [("claude-code", 0), ("codex", 1), ("pi", 1), ("sts", 2), ("atif", 1)]
)
def test_an_answer_that_is_missing_after_a_result(shape: str, question: int) -> None:
    """It is empty, not trained, and named, so that formats can write what is around it."""
    record: Any = WEATHER[shape]
    items = record["steps"] if shape == "atif" else record
    for trace, roles in (([*items[:-1], items[question], items[-1]], "uataua"), (items[:-1], "uata")):  # fmt: skip
        whole = {**record, "steps": trace} if shape == "atif" else trace
        chat = read(whole, shape)
        assert "".join(m.role[0] for m in chat.messages if m.role != "system") == roles
        assert {f.code for f in findings(chat)} - {"MYP134"} == {"MYP288"}
        silent = [m for m in chat.messages if m.role == "assistant"][1]
        assert (silent.text, silent.weight and silent.weight.value) == ("", 0)
        assert Converter(shape, "qwen3").record(whole).record


def test_answers_of_anthropic_as_its_api_returns_them() -> None:
    record = json.loads(json.dumps(WEATHER["anthropic"]))
    record["messages"][1] |= {"id": "m", "type": "message", "stop_reason": "tool_use", "usage": {}}
    chat, plain = read(record, "anthropic"), read(WEATHER["anthropic"], "anthropic")
    assert (chat.messages, chat.findings) == (plain.messages, plain.findings)


def test_steps_of_no_model_and_trajectories_of_subagents() -> None:
    """What no model wrote (ATIF 1.7) is not trained; embedded trajectories are named."""
    record = json.loads(json.dumps(WEATHER["atif"]))
    record["steps"][2]["llm_call_count"] = 0
    record["steps"][3]["llm_call_count"] = 1
    record["subagent_trajectories"] = [WEATHER["atif"]] * 2
    chat = read(record, "atif")
    answers = [m for m in chat.messages if m.role == "assistant"]
    assert [m.weight and m.weight.value for m in answers] == [0, None]
    assert [(f.code, f.pointer) for f in chat.findings] == [("MYP283", "/subagent_trajectories")]
    assert "2 items of a subagent" in chat.findings[0].message


def test_observations_of_no_call() -> None:
    """ATIF: what follows a text is of the user; one result of one call needs no id."""
    record = json.loads(json.dumps(WEATHER["atif"]))
    call, answer = record["steps"][2:]
    del call["observation"]["results"][0]["source_call_id"]
    chat = read(record, "atif")
    assert [m.answers and m.answers.text for m in chat.messages] == [None] * 3 + ["t", None]
    bare = {"observation": {"results": [{"content": "$ ls"}]}}
    summary = {"source": "system", "message": "Summarized."}
    summary |= {"observation": {"results": [{"subagent_trajectory_ref": [{"session_id": "s"}]}]}}
    record["steps"] = [*record["steps"][:2], answer | bare, answer, summary, answer | bare]
    chat = read(record, "atif")
    assert [m.role[0] for m in chat.messages] == [*"suauasa"]
    assert [(f.code, f.pointer) for f in chat.findings] == [
        ("MYP283", "/steps/4/observation/results/0"),
        ("MYP287", "/steps/5/observation/results/0/content"),
    ]


def test_an_answer_that_ended_well_is_trained() -> None:
    record = json.loads(json.dumps(WEATHER["pi"]))
    for entry in record:
        if entry.get("message", {}).get("role") == "assistant":
            entry["message"]["stopReason"] = "stop"
    assert read(record, "pi").findings == read(WEATHER["pi"], "pi").findings == ()


@pytest.mark.parametrize("shape", ["claude-code", "codex", "atif", "gemini"])
def test_masks_by_kind(shape: str) -> None:
    """Calls, thoughts and answers of any shape are spans of their kind."""
    qwen3, record = dialect("qwen3"), WEATHER[shape]
    episode, _ = Converter(shape, "qwen3").read(record, read(record, shape))
    assert episode is not None

    def trained(mask: str) -> str:
        encoded = qwen3.encode(episode, mask=mask)
        return qwen3.tokenizer.decode(encoded.ids[encoded.loss > 0].tolist())

    assert "Rome" in trained("calls")
    assert "Sun." not in trained("calls")
    assert "Sun." in trained("answers")
    assert "Rome" not in trained("answers")
    assert "T\n</think>" in trained("model") != trained("no-think")


def test_a_summary_without_a_text() -> None:
    record = [*WEATHER["codex"], {"type": "compacted", "payload": {"message": ""}}]
    chat = read(record, "codex")
    assert [f.code for f in chat.findings] == ["MYP281"]
    assert chat.messages[-1].role == "assistant"


def test_a_result_that_is_an_object_has_no_fix() -> None:
    """A text in the place of the object would be another result."""
    record = json.loads(json.dumps(WEATHER["gemini"]))
    record["contents"][2]["parts"][0]["functionResponse"]["response"] = {"x": "s\u2068un"}
    (finding,) = [f for f in findings(read(record, "gemini")) if f.code == "MYP364"]
    assert (finding.pointer, finding.fix) == ("/contents/2/parts/0/functionResponse/response", None)


def test_a_free_text_of_a_tool_is_an_argument() -> None:
    record = [item("message", role="user", content="Q"), item("custom_tool_call", call_id="1", name="patch", input="*** Begin"), item("custom_tool_call_output", call_id="1", output="ok"), item("message", role="assistant", content="A")]  # fmt: skip
    (call,) = read(record, "codex").messages[1].calls
    assert call.arguments is not None
    assert call.arguments.value == {"input": "*** Begin"}


def test_an_openai_record_among_those_of_anthropic() -> None:
    """One without blocks is read; one with calls that only OpenAI has is a fault."""
    plain = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]}  # fmt: skip
    assert not read(plain, "anthropic").findings
    plain["messages"][1]["tool_calls"] = "x"
    assert [f.code for f in read(plain, "anthropic").findings] == ["MYP103"]


def lines(record: list[Any]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in record)


@pytest.mark.parametrize("shape", [name for name, table in tables().items() if table.events])
def test_a_file_of_events_is_one_record(shape: str) -> None:
    data = lines(WEATHER[shape])
    assert layout_of(data, ended=True) == EVENTS
    for stream in (data, data.rstrip(), data.replace(b"\n", b"\r\n")):
        (block,) = record_blocks(Source("x", stream=BytesIO(stream)))
        assert json.loads(block.data) == WEATHER[shape]
    (row,) = record_blocks(Source("x", stream=BytesIO(json.dumps(WEATHER[shape]).encode())))
    assert (row.kind, json.loads(row.data)) == ("lines", WEATHER[shape])


def test_the_layout_knows_the_signs_of_all_tables() -> None:
    signs = chain.from_iterable(t.signs for t in tables().values() if t.events)
    assert {frozenset(sign) for sign in signs} == {frozenset(keys) for keys in EVENT_KEYS}


@pytest.mark.parametrize("record", [{"type": "x", "payload": 1, "messages": []}, {"type": 1, "sessionId": "s"}, {"id": 1, "cwd": "/"}])  # fmt: skip
def test_a_record_is_no_event(record: dict[str, Any]) -> None:
    assert layout_of(lines([record, record]), ended=True) == LINES


def test_a_trace_that_is_cut() -> None:
    (block,) = record_blocks(Source("x", stream=BytesIO(lines(WEATHER["codex"])[:-20])))
    assert block.fault is not None
    assert block.origins[0].row == len(WEATHER["codex"])
    assert block.fault.code == "MYP286"


@settings(max_examples=examples(400))
@given(st.data())
def test_any_record_is_read(data: st.DataObject) -> None:
    """A value is replaced by any other, anywhere, and there are findings and no exception."""
    shape = data.draw(st.sampled_from(sorted(WEATHER)))
    record = json.loads(json.dumps(WEATHER[shape]))
    parent, value = None, record
    for _ in range(data.draw(st.integers(1, 6))):
        if not isinstance(value, dict | list) or not value:
            break
        keys = sorted(value) if isinstance(value, dict) else range(len(value))
        parent, key = value, data.draw(st.sampled_from(list(keys)))
        value = value[key]
    assert parent is not None
    parent[key] = data.draw(st.sampled_from([None, 1, "", "x", [], {}, [1], ["x"], {"type": "text"}, {"type": 4}, [[]]]))  # fmt: skip
    chat = read(record, shape)
    assert Counter(f.code for f in findings(chat)) is not None
    Converter(shape, "qwen3").record(record)


def test_a_trace_with_several_faults_is_a_trace() -> None:
    """A dialect has one error for any list, which is fewer."""
    assert guessed([[USER, 4, 5, "x", ANSWER]], "mypt", definite=False) == "claude-code"
