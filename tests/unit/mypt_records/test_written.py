"""Calls, results and thoughts that answers hold as text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mypt_convert import Converter
from mypt_records.checks import findings
from mypt_records.shapes import read
from mypt_records.written import CALLS, THOUGHTS, read_out
from tests.support.build import assistant, chat, function, tool, user
from tests.support.shapes import gpt

FIND = function("find", {"q": {"type": "string"}})
HERMES = f"You call functions. <tools>{json.dumps([FIND])}</tools>"
QWEN = f"# Tools\n<tools>\n{json.dumps(FIND)}\n{json.dumps(function('other'))}\n</tools>"


def written(name: str = "find", **arguments: Any) -> str:
    body = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{body}\n</tool_call>"


def called(record: Any, shape: str = "openai") -> list[tuple[str, Any]]:
    read_as = read_out(read(record, shape))
    return [
        (c.name.text, c.arguments and c.arguments.value) for m in read_as.messages for c in m.calls
    ]


def codes(record: Any, shape: str = "openai") -> list[str]:
    return [f.code for f in findings(read_out(read(record, shape)))]


ONE = [("find", {"q": "x"})]


@pytest.mark.parametrize("prompt", [HERMES, QWEN])
def test_a_call_between_tags_is_a_call(prompt: str) -> None:
    turns = (
        ("human", "Q"),
        ("gpt", written(q="x")),
        ("tool", "<tool_response>\n4\n</tool_response>"),
    )
    record = gpt(("system", prompt), *turns, ("gpt", "4"))
    assert (called(record, "sharegpt"), codes(record, "sharegpt")) == (ONE, [])
    out = Converter("sharegpt", "qwen3").record(record)
    assert out.record is not None, out.findings
    answer, result = out.record["messages"][2:4]
    assert answer["tool_calls"][0]["function"] == {"name": "find", "arguments": {"q": "x"}}
    assert result["content"] == "4"


def test_calls_and_results_of_one_message() -> None:
    answer = f"I look.\n{written(q='x')}\n{written(q='y')}"
    results = "<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response>"
    record = chat(user(), assistant(answer), tool(results), assistant(), tools=[FIND])
    assert called(record) == [*ONE, ("find", {"q": "y"})]
    assert codes(record) == []
    out = Converter("openai", "qwen3").record(record)
    assert out.record is not None, out.findings
    messages = out.record["messages"]
    assert messages[1]["content"] == "I look."
    assert [m["content"] for m in messages if m["role"] == "tool"] == ["1", "2"]


@pytest.mark.parametrize("text", ["[find(q='x')]", '[find(q="x"), find(q="y")]'])
def test_calls_in_brackets_before_a_result(text: str) -> None:
    record = chat(user(), assistant(text), tool("4"), assistant(), tools=[FIND])
    assert called(record)[:1] == ONE
    assert called(chat(user(), assistant(text), tools=[FIND])) == []
    assert "MYP310" not in codes(record)
    named = chat(user(), assistant('[Find It(q="x")]'), tool("4"), assistant())
    assert called(named) == [("Find It", {"q": "x"})]
    assert codes(chat(user(), assistant("[find(q=x)]"), tool("4"), assistant()))[0] == "MYP304"


@pytest.mark.parametrize(
    ("text", "code", "shown"),
    [
        ("<tool_call>\n{'name': 'find'}\n</tool_call>", "MYP304", "\n{'name': 'find'}\n"),
        ("<tool_call>[1]</tool_call>", "MYP104", "[1]"),
        (written("fnd", q="x"), "MYP313", '"fnd"'),
        (written(q=5), "MYP353", "5"),
        (written(qq="x"), "MYP353", '"qq"'),
        ('<tool_call>{"name": "find"}</tool_call>', "MYP332", None),
    ],
)
def test_a_call_between_tags_is_checked_as_calls_are(
    text: str, code: str, shown: str | None
) -> None:
    """Each finding has its place in the text."""
    record = chat(user(), assistant(f"I look. {text}"), tool("4"), assistant(), tools=[FIND])
    (first, *_) = findings(read_out(read(record, "openai")))
    assert (first.code, first.pointer) == (code, "/messages/1/content")
    span = first.span and record["messages"][1]["content"][slice(*first.span)]
    assert span == shown


def test_places_in_results_between_tags() -> None:
    """Of one result in a string; of several, the string is the place."""
    odd = "<tool_response>\nItâ€™s 4\n</tool_response>"
    for results, shown in ((odd, "â€™"), (odd * 2, None)):
        calls = written(q="x") * results.count("</")
        record = chat(user(), assistant(calls), tool(results), assistant(), tools=[FIND])
        (first, *_) = findings(read_out(read(record, "openai")))
        assert (first.code, first.pointer) == ("MYP363", "/messages/2/content")
        assert (first.span and results[slice(*first.span)]) == shown


@pytest.mark.parametrize(
    "record",
    [
        chat(user(), assistant(f"Write {written()} then.")),
        chat(user(), assistant(f"Write {written()} then."), tools=[FIND]),
        chat(user(written(q="x")), assistant(), tools=[FIND]),
        chat(user(), assistant("[see (this)]")),
    ],
)
def test_text_about_calls_stays_text(record: Any) -> None:
    assert read_out(read(record, "openai"), {CALLS, THOUGHTS}) == read(record, "openai")


@pytest.mark.parametrize(
    ("text", "thought", "said"),
    [
        ("<think>\nAha.\n</think>\n\nYes.", "Aha.", "Yes."),
        ("<think>Aha.</think>Yes.", "Aha.", "Yes."),
        ("<think>\n\n</think>\n\nYes.", "", "Yes."),
        ("Yes. <think>no</think>", None, "Yes. <think>no</think>"),
        ("<think>a</think><think>b</think>c", None, "<think>a</think><think>b</think>c"),
        ("<think>open", None, "<think>open"),
    ],
)
def test_a_thought_before_an_answer(text: str, thought: str | None, said: str) -> None:
    (_, answer) = read_out(read(chat(user(), assistant(text)), "openai"), {THOUGHTS}).messages
    assert [t.text for t in answer.thoughts] == ([] if thought is None else [thought])
    assert answer.text == said


def test_a_format_without_thoughts_keeps_the_text() -> None:
    record = chat(user(), assistant("<think>\nAha.\n</think>\n\nYes."))
    out = Converter("openai", "chatml").record(record)
    assert out.record == record
    out = Converter("openai", "qwen3").record(record)
    assert out.record is not None
    assert out.record["messages"][1] == assistant("Yes.", reasoning_content="Aha.")
