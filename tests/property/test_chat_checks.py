"""Checks of chats: none raises, whatever is declared and called, and what they name is there."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mypt_records.checks import findings
from mypt_records.shapes import read
from mypt_spec.bodies.strict_json import value_at
from tests.support.strategies import ANY_JSON

SCHEMA_KEYS = st.sampled_from(
    ["type", "properties", "required", "items", "default", "additionalProperties", "a", "$ref"]
)
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(["string", "dict", "float", "any", None, True, ["a"], 3, "#"]),
    lambda inner: st.dictionaries(SCHEMA_KEYS, inner, max_size=4) | st.lists(inner, max_size=2),
    max_leaves=8,
)
NAMES = st.sampled_from(["f", "g"])
IDS = st.sampled_from(["1", "2"])
ARGUMENTS = ANY_JSON | ANY_JSON.map(json.dumps) | st.dictionaries(NAMES, st.none())
TEXTS = st.text("a{}<|>s/_im end\n", max_size=12) | st.sampled_from(["{{name}}", "</s>", "noinput"])
TOOLS = st.builds(
    lambda name, schema: {"type": "function", "function": {"name": name, "parameters": schema}},
    NAMES,
    SCHEMAS,
)
CALLS = st.builds(
    lambda ident, name, arguments: {
        "id": ident,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    },
    IDS,
    NAMES,
    ARGUMENTS,
)
MESSAGES = st.one_of(
    st.builds(
        lambda role, text: {"role": role, "content": text},
        st.sampled_from(["system", "user", "assistant"]),
        TEXTS,
    ),
    st.builds(
        lambda calls: {"role": "assistant", "content": None, "tool_calls": calls},
        st.lists(CALLS, min_size=1, max_size=3),
    ),
    st.builds(
        lambda ident, name: {"role": "tool", "content": "4", "tool_call_id": ident, "name": name},
        IDS,
        NAMES,
    ),
)


@given(st.lists(MESSAGES, min_size=1, max_size=7), st.lists(TOOLS, max_size=3))
def test_findings_name_what_is_in_the_record(messages: list[Any], tools: list[Any]) -> None:
    record = {"messages": messages, "tools": tools}
    for finding in findings(read(record, "openai")):
        parent = finding.pointer.rpartition("/")[0]
        assert value_at(record, finding.pointer) is not None or value_at(record, parent) is not None
        if finding.span is not None:
            text = value_at(record, finding.pointer)
            assert 0 <= finding.span[0] <= finding.span[1] <= len(text)


@given(st.lists(TEXTS.filter(str.strip), min_size=1, max_size=4))
def test_questions_and_answers_in_turn_have_findings_about_texts_alone(texts: list[str]) -> None:
    talk = [
        message
        for text in texts
        for message in (
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": text},
        )
    ]
    found = findings(read({"messages": talk}, "openai"))
    assert {f.code for f in found} <= {"MYP301", "MYP358"}
