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
from mypt_spec.bodies import json_body
from mypt_spec.bodies.call_tags import Tags
from mypt_spec.bodies.json_body import (
    argument_key,
    call_text,
    calls_of,
    value_in,
    written,
    written_key,
)
from mypt_spec.table import CALLS, LISTS
from tests.support.build import assistant, call, calls, chat, function, system, tool, user
from tests.support.decoding import (
    CALLERS,
    calls_in,
    complete,
    into_call,
    prompt,
    takes_body,
    walk,
)
from tests.support.examples import either
from tests.support.maker import NAMED_ARGUMENTS
from tests.support.scripted import ids_of

KEYS = st.sampled_from([*NAMED_ARGUMENTS, "names", "_name", "na", ""]) | st.from_regex(
    r"\A_?name_{0,4}x?\Z"
)
ARGUMENTS = st.dictionaries(KEYS, st.integers() | st.dictionaries(KEYS, st.none()), max_size=5)


@given(st.text() | KEYS)
def test_a_key_is_read_as_it_was_given(key: str) -> None:
    assert argument_key(written_key(key)) == key
    assert written_key(key) != "name"
    if key != "name":
        assert written_key(argument_key(key)) == key


@given(ARGUMENTS)
def test_only_the_arguments_themselves_are_renamed(arguments: dict[str, Any]) -> None:
    body = written(arguments)
    assert list(body.values()) == list(arguments.values())
    assert [argument_key(key) for key in body] == list(arguments)


@pytest.mark.parametrize("kind", [*CALLS, *LISTS])
@given(arguments=ARGUMENTS)
def test_a_body_has_the_arguments_of_its_call(kind: str, arguments: dict[str, Any]) -> None:
    if kind == "tagged":
        kind = Tags()
        assume("" not in arguments)  # a tag has a name
    literals = mypt_spec.dialect("mypt").table.literals
    text = (
        json.dumps(arguments) if kind == "arguments" else call_text("t", arguments, literals, kind)
    )
    values = json_body.calls_in(value_in(text, kind), kind, (("name", "t"),))
    assert values == [("t", arguments, "")]


@pytest.mark.parametrize("name", CALLERS)
@given(arguments=ARGUMENTS)
def test_a_tool_is_called_with_the_arguments_of_the_record(
    name: str, arguments: dict[str, Any]
) -> None:
    """From OpenAI's record to the dialect's, to its text and ids, and to the tool at run time."""
    asked = calls(call("t", json.dumps(arguments), id="c"), content=None)
    record = chat(system(), user("u"), asked, tool("1", tool_call_id="c"), assistant("a"))
    dialect = mypt_spec.dialect(name)
    converted = Converter("openai", name).record(record)
    assert converted.record is not None
    episode, _ = dialect.read(converted.record)
    assert episode is not None
    for read in (
        dialect.parse(dialect.serialize(episode))[0],
        dialect.parse_ids(dialect.encode(episode).ids)[0],
    ):
        assert [c.arguments for c in calls_of(read.messages, dialect.table)] == [arguments]
    parsed = find_last_toolcall(dialect.serialize(episode), name)
    assert parsed is not None
    assert parsed.arguments == arguments


NAMES = {"name": {"type": "string"}, "names": {"type": "integer"}, "name_": {"type": "boolean"}}


def has_body(name: str, *kinds: str) -> bool:
    return any(t.body in kinds for t in mypt_spec.dialect(name).table.openers.values())


@pytest.mark.parametrize(
    ("name", "engine"),
    [(name, "table") for name in CALLERS]
    + [(n, "llguidance") for n in CALLERS if either(has_body(n, "call", *LISTS), True)],
)
def test_a_generated_call_has_the_arguments_of_its_schema(name: str, engine: str) -> None:
    made = Decoder(name, [function("t", NAMES, required=["name", "name_"])], engine=engine)
    before = made.ids_of(prompt(name))
    for seed in range(either(2, 12)):
        ids, state = into_call(made, made.start(before, max_new_tokens=70))
        ids = [*before, *ids, *walk(made, state, random.Random(seed))]
        assert complete(made, ids)
        written_calls = calls_in(made, ids)
        assert written_calls
        for written_call in written_calls:
            assert {*written_call.arguments} - {"names"} == {"name", "name_"}
            assert isinstance(written_call.arguments["name"], str)
            assert isinstance(written_call.arguments["name_"], bool)


def test_references_follow_the_argument_that_they_name() -> None:
    properties = {"name": {"type": "string"}, "name_": {"$ref": "#/properties/name"}}
    tools = [function("t", properties, required=["name", "name_"])]
    made = Decoder("mypt", tools, engine="llguidance")
    assert takes_body(made, '{"name": "t", "name_": "a", "name__": "other"}')


@pytest.mark.parametrize("name", [name for name in CALLERS if format_of(name).result])
def test_a_tool_gets_its_arguments_from_the_controller(name: str) -> None:
    received: list[dict[str, Any]] = []
    tools = Toolbox([Tool("t", "", {"type": "object"}, lambda args: received.append(args) or 1)])
    arguments = {"name": "Ada", "name_": True}
    table = mypt_spec.dialect(name).table
    body = next(t.body for t in table.openers.values() if t.body in (*CALLS, *LISTS))
    text = CALLED[name].replace("BODY", body_of(body, "t", arguments, table.literals))
    made = Controller(
        Script(ids_of(text, name)),
        tools,
        dialect=name,
        system="S" if name == "mypt" else None,
        options=Options(max_steps=3),
    )
    list(made.say("Hi"))
    assert received == [arguments]


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
