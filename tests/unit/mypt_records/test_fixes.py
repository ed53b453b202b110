"""Safe fixes of chats: what they write, and what they leave alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.fix.apply import Fixer
from mypt_records.shapes import shape_of
from tests.support.build import Record, assistant, call, calls, chat, function, tool, user

CALLED = [call(arguments='{"q": 1}', id="c1")]


def fixed(record: Record, *, unsafe: bool = False) -> Record:
    """Returns a record as --fix leaves it."""
    shape = shape_of(record)
    checker = Checker(mypt_spec.dialect("mypt"), shape=shape, formatless=True)
    line, _ = Fixer(checker, unsafe).line(json.dumps(record).encode(), row=2)
    assert line is not None
    out: Record = json.loads(line)
    return out


def used(arguments: Any) -> Record:
    calling = calls(call(arguments=arguments, id="c1"), content=None)
    return chat(user(), calling, tool(tool_call_id="c1"), assistant())


def declared(kind: str, inner: str) -> Record:
    schema = {"type": kind, "properties": {"q": {"type": inner}, "r": {"type": "string"}}}
    return {"type": "function", "function": {"name": "find", "parameters": schema}}


def talk(role: str, text: str = "Yes.") -> Record:
    return chat(user(), {"role": role, "content": text})


@pytest.mark.parametrize(
    ("record", "wanted"),
    [
        (talk("gpt"), talk("assistant")),
        (talk("Assistant"), talk("assistant")),
        (used("{'q': 'it\\'s', 'b': None, 'c': [True]}"), used('{"q": "it\'s", "b": null, "c": [true]}')),
        (used('{"q": 1,}'), used('{"q": 1}')),
        (used(""), used("{}")),
        (chat(tools=[declared("dict", "float")]), chat(tools=[declared("object", "number")])),
        (
            chat(tools=json.dumps([function(), declared("dict", "Integer")[ "function"]])),
            chat(tools=json.dumps([function(), declared("object", "integer")["function"]])),
        ),
        (
            chat(user(), assistant(None, tool_call=CALLED), tool(tool_call_id="c1"), assistant()),
            chat(user(), assistant(None, tool_calls=CALLED), tool(tool_call_id="c1"), assistant()),
        ),
        (
            chat(user([{"type": "text", "content": "Hi"}]), assistant()),
            chat(user([{"type": "text", "text": "Hi"}]), assistant()),
        ),
    ],
)  # fmt: skip
def test_what_has_one_meaning_is_fixed(record: Record, wanted: Record) -> None:
    assert fixed(record) == wanted
    assert fixed(wanted) == wanted


@pytest.mark.parametrize(
    "record",
    [
        talk("assistent"),  # one may be meant
        talk("poet"),
        talk("assistant", "Yes.</s>"),  # a template may add none
        talk("assistant", "Yes.<|im_end|> No."),
        talk("assistant", "Yes.<|im_start|>"),
        talk("assistant", "</s>"),
        chat(
            user(),
            assistant(
                'Ok.<|im_end|><tool_call>{"name": "find", "arguments": {"q": 1}}</tool_call>'
            ),
            tool("<tool_response>4<|im_end|></tool_response>"),
            assistant(),
            tools=[declared("object", "integer")],
        ),
        used("{'q': (1, 2)}"),
        used("{'q': 1, 'q': 2}"),
        used("{1: 2}"),
        used("{'q': f(1)}"),
        used("{'q': 1e999}"),
        chat(tools=[declared("dict", "any")]),
        chat(tools=[declared("dict", "int, optional")]),
        chat(user(), assistant("x", tool_call="y"), user(), assistant()),
        chat(user(), assistant("x", content_="y")),
        chat(user([{"type": "text", "content": "Hi", "text": "Yo"}]), assistant()),
    ],
)
def test_what_may_mean_something_else_stays(record: Record) -> None:
    assert fixed(record) == record


def test_control_characters_in_formulas_are_their_letters() -> None:
    text = "Half is \frac{1}{2}, \beta too.\x1b[0m"
    wanted = r"Half is \frac{1}{2}, \beta too."
    assert fixed(talk("assistant", text), unsafe=True) == talk("assistant", wanted)


@pytest.mark.parametrize("end", ["<|im_end|>\n", "</s>"])
def test_a_stop_token_has_an_unsafe_fix(end: str) -> None:
    assert fixed(talk("assistant", f"Yes.{end}"), unsafe=True) == talk("assistant")


def test_a_misspelt_role_has_an_unsafe_fix() -> None:
    assert fixed(talk("assistent"), unsafe=True) == talk("assistant")
    record = {
        "conversations": [{"from": "human", "value": "Hi"}, {"from": "assistent", "value": "x"}]
    }
    assert fixed(record, unsafe=True)["conversations"][1]["from"] == "assistant"
