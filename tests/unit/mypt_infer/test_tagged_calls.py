"""Calls whose arguments are tags, while a conversation runs: read, run, told to clients."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_infer.controller import Controller, Script, replay
from mypt_infer.controller.events import CallParsed, ToolResult
from mypt_infer.controller.transcript import trainable
from mypt_infer.parsing import find_last_toolcall
from mypt_infer.run_format import format_of
from mypt_infer.serve.call_stream import TaggedStream
from mypt_infer.serve.deltas import CALLED, CONTENT, DeltaReader
from mypt_infer.toolbox import Tool, Toolbox
from mypt_spec.bodies.tagged import read_tagged, typed, types_of, write_tagged
from tests.support import scripted
from tests.support.build import chat, function, user
from tests.support.examples import examples

FOLDER = "qwen3-coder"
OFTEN = settings(max_examples=examples(160))  # an example takes a moment
D = mypt_spec.dialect(FOLDER)
SCHEMA = function("find", {"zip": {"type": "string"}, "n": {"type": "integer"}}, required=["zip", "n"])["function"]["parameters"]  # fmt: skip
TOOLS = Toolbox([Tool("find", "Finds.", SCHEMA, lambda a: f"{a['zip']!r} {a['n']!r}")])
CALL = "<tool_call>\n<function=find>\n<parameter=zip>\n12345\n</parameter>\n<parameter=n>\n5\n</parameter>\n</function>\n</tool_call>"  # fmt: skip
ASKED = chat(user("Find it."), tools=TOOLS.schemas)
ARGUMENTS = {"zip": "12345", "n": 5}


def ids_of(text: str) -> list[int]:
    return scripted.ids_of(text, FOLDER)


def test_a_conversation_runs_calls_with_typed_arguments() -> None:
    script = f"I look.\n\n{CALL}\n{CALL}<|im_end|>Done.<|im_end|>"
    controller = Controller(Script(ids_of(script)), TOOLS, dialect=D)
    events = list(controller.say("Find it."))
    assert [e.arguments for e in events if isinstance(e, CallParsed)] == [ARGUMENTS] * 2
    assert [e.value for e in events if isinstance(e, ToolResult)] == ["'12345' 5"] * 2
    record = {k: v for k, v in controller.record().items() if not k.startswith("_")}
    calls = record["messages"][1]["tool_calls"]
    assert [c["function"]["arguments"] for c in calls] == [ARGUMENTS] * 2
    episode, findings = D.check(record)
    assert episode is not None
    assert [f.code for f in findings if f.severity != "info"] == []
    assert trainable(controller.history)[1] == []
    again, _ = replay(json.loads(json.dumps(controller.record())), FOLDER)
    assert again.ids == controller.history.ids


def test_a_client_is_told_arguments_one_by_one() -> None:
    prompt = D.read(ASKED)[0]
    assert prompt is not None
    ids = [i for s in D.segments(prompt, partial=True) for i in s.ids]
    reader = DeltaReader(format_of(D), [*ids, *ids_of("<|im_start|>assistant\n")])
    deltas = [d for i in ids_of(f"So.\n\n{CALL}<|im_end|>") for d in reader.push(i)]
    deltas += reader.end()
    assert "".join(d.text for d in deltas if d.kind == CONTENT) == "So."
    called = [d for d in deltas if d.kind == CALLED]
    assert [d.name for d in called if d.name] == ["find"]
    assert [d.text for d in called if d.text] == ['{"zip": "12345"', ', "n": 5', "}"]
    assert [d.ended for d in called] == [False] * (len(called) - 1) + [True]


@OFTEN
@given(data=st.data())
def test_a_stream_of_a_call_is_the_whole(data: st.DataObject) -> None:
    values = (
        st.text(max_size=6) | st.sampled_from(["\n", "5", "\n</parameter", "null"]) | st.integers()
    )
    arguments = data.draw(st.dictionaries(st.sampled_from(["zip", "n", "q"]), values, max_size=3))
    text = write_tagged("find", arguments, D.table.literals)
    types = types_of(TOOLS.schemas)
    stream, body, at = TaggedStream(types), "", 0
    while at < len(text):
        size = data.draw(st.integers(1, 20))
        body += stream.push(text[at : at + size])
        at += size
    assert (stream.name, json.loads(body)) == ("find", typed(*read_tagged(text), types))


def test_the_last_call_of_a_text() -> None:
    prompt = D.read(ASKED)[0]
    assert prompt is not None
    begun = "".join(s.event.text for s in D.segments(prompt, partial=True))
    begun += "<|im_start|>assistant\n"
    call = find_last_toolcall(f"{begun}{CALL.replace('12345', '1')}\n{CALL}", D)
    assert call is not None
    assert (call.name, call.arguments, call.raw_block) == ("find", ARGUMENTS, CALL)
    assert find_last_toolcall(begun + CALL.replace("\n</function>", ""), D) is None
