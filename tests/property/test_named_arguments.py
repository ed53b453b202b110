"""Arguments that are called `name`: beside the name of the tool, no argument is lost or renamed."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import mypt_spec
from mypt_convert import Converter
from mypt_infer.controller import Controller, Options, Script
from mypt_infer.decode import Decoder
from mypt_infer.decode.compile.call_graph import body_of
from mypt_infer.parsing import find_last_toolcall
from mypt_infer.run_format import format_of
from mypt_infer.toolbox import Tool, Toolbox
from mypt_spec.bodies.json_body import (
    TAGGED,
    call_text,
    calls_in,
    calls_of,
    given_key,
    value_in,
    written,
    written_key,
)
from mypt_spec.lexer import lex_ids
from mypt_spec.parser import messages_of
from mypt_spec.table import CALLS, LISTS
from mypt_spec.validator import Run
from tests.support.decoding import CALLERS, complete, generated, prompt
from tests.support.scripted import ids_of
from tests.support.strategies import NAMED_ARGUMENTS

KEYS = st.sampled_from([*NAMED_ARGUMENTS, "names", "_name", "na", ""]) | st.from_regex(
    r"\A_?name_{0,4}x?\Z"
)
ARGUMENTS = st.dictionaries(KEYS, st.integers() | st.dictionaries(KEYS, st.none()), max_size=5)


@given(st.text() | KEYS)
def test_a_key_is_read_as_it_was_given(key: str) -> None:
    assert given_key(written_key(key)) == key
    assert written_key(key) != "name"
    if key != "name":
        assert written_key(given_key(key)) == key


@given(ARGUMENTS)
def test_only_the_arguments_themselves_are_renamed(arguments: dict[str, Any]) -> None:
    body = written(arguments)
    assert list(body.values()) == list(arguments.values())
    assert [given_key(key) for key in body] == list(arguments)


@pytest.mark.parametrize("kind", [*CALLS, *LISTS])
@given(arguments=ARGUMENTS)
def test_a_body_has_the_arguments_of_its_call(kind: str, arguments: dict[str, Any]) -> None:
    assume(kind != TAGGED or "" not in arguments)  # a tag has a name
    literals = mypt_spec.dialect("mypt").table.literals
    text = (
        json.dumps(arguments) if kind == "arguments" else call_text("t", arguments, literals, kind)
    )
    (call,) = calls_in(value_in(text, kind), kind, (("name", "t"),))
    assert call == ("t", arguments, "")


@pytest.mark.parametrize("name", CALLERS)
@given(arguments=ARGUMENTS)
def test_a_tool_is_called_with_the_arguments_of_the_record(
    name: str, arguments: dict[str, Any]
) -> None:
    """From OpenAI's record to the dialect's, to its text and ids, and to the tool at run time."""
    function = {"name": "t", "arguments": json.dumps(arguments)}
    record = {
        "messages": [
            {"role": "system", "content": "S"},
            {"role": "user", "content": "u"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "1"},
            {"role": "assistant", "content": "a"},
        ]
    }
    dialect = mypt_spec.dialect(name)
    converted = Converter("openai", name).record(record)
    assert converted.record is not None
    episode, _ = dialect.read(converted.record)
    assert episode is not None
    for read in (
        dialect.parse(dialect.serialize(episode))[0],
        dialect.parse_ids(dialect.encode(episode).ids)[0],
    ):
        assert [call.arguments for call in calls_of(read.messages, dialect.table)] == [arguments]
    called = find_last_toolcall(dialect.serialize(episode), name)
    assert called is not None
    assert called.arguments == arguments


TOOL = {
    "name": "t",
    "parameters": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "names": {"type": "integer"},
            "name_": {"type": "boolean"},
        },
        "required": ["name", "name_"],
    },
}
REFERRING = {
    "name": "t",
    "parameters": TOOL["parameters"]
    | {"properties": {"name": {"type": "string"}, "name_": {"$ref": "#/properties/name"}}},
}


@pytest.mark.parametrize("engine", ["table", "llguidance"])
@pytest.mark.parametrize("name", CALLERS)
def test_a_generated_call_has_the_arguments_of_its_schema(name: str, engine: str) -> None:
    made, seen = Decoder(name, [TOOL], engine=engine), 0
    before = made.ids_of(prompt(name))
    for seed in range(12):
        state = made.start(before, max_new_tokens=70)
        ids = [*before, *generated(made, state, random.Random(seed))]
        assert complete(made, ids)
        for call in called(made, ids):
            seen += 1
            assert {*call} - {"names"} == {"name", "name_"}
            assert isinstance(call["name"], str)
            assert isinstance(call["name_"], bool)
    assert seen


def test_references_follow_the_argument_that_they_name() -> None:
    made = Decoder("mypt", [REFERRING], engine="llguidance")
    state = made.run(made.start(prompt("mypt")), [50261, 50267])
    encode = made.dialect.tokenizer.encode
    state = made.run(state, encode('{"name": "t", "name_": "a", "name__": "'))
    assert made.accepts(state, encode('other"}')) == len(encode('other"}'))


def called(made: Decoder, ids: list[int]) -> list[dict[str, Any]]:
    events, _ = lex_ids(
        ids,
        made.dialect.table,
        made.dialect.tokenizer.decode_bytes,
        made.dialect.tokenizer.ordinary,
    )
    run = Run(made.dialect.table, made.dialect.automaton, complete=False).check(events)
    messages, _ = messages_of(run.events, made.dialect.table)
    return [call.arguments for call in calls_of(messages, made.dialect.table)]


@pytest.mark.parametrize("name", [name for name in CALLERS if format_of(name).result])
def test_a_tool_gets_its_arguments_from_the_controller(name: str) -> None:
    got: list[dict[str, Any]] = []
    tools = Toolbox([Tool("t", "", {"type": "object"}, lambda args: got.append(args) or 1)])
    given_ = {"name": "Ada", "name_": True}
    dialect = mypt_spec.dialect(name)
    kind = next(k for k, t in dialect.table.openers.items() if t.body in (*CALLS, *LISTS))
    body = body_of(dialect.table.openers[kind].body, "t", given_, dialect.table.literals)
    text = CALLED[name].replace("BODY", body)
    made = Controller(
        Script(ids_of(text, name)),
        tools,
        dialect=name,
        system="S" if name == "mypt" else None,
        options=Options(max_steps=3),
    )
    list(made.say("Hi"))
    assert got == [given_]


CALLED = {
    "mypt": "<myPT_toolcall>BODY</myPT_toolcall>Done.</myPT_assistant>",
    "mypt-3b": '\n<toolcall name="t">\nBODY\n</toolcall>\nDone.</assistant>',
    "harmony": " to=functions.t<|channel|>commentary <|constrain|>json<|message|>BODY<|call|>"
    "<|channel|>final<|message|>Done.<|return|>",
    "praxis": "I look. <tin>\nBODY\n</tin> Done.\n[SEP]",
    "mistral": "[TOOL_CALLS]BODY</s>Done.</s>",
    "qwen3": "<tool_call>\nBODY\n</tool_call><|im_end|>Done.<|im_end|>",
    "llama3": "<|python_tag|>BODY<|eom_id|>Done.<|eot_id|>",
    "mistral-v13": "[TOOL_CALLS]t[ARGS]BODY</s>Done.</s>",
    "usf-omega": "<tool_calls_start>BODY<tool_calls_end>\n<end>\n"
    "<message_start>Done.<message_end>\n<end>\n",
}
