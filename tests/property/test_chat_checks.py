"""Checks of chats: none raises, whatever is declared and called, and what they name is there."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.fix.apply import Fixer
from mypt_records.checks import findings
from mypt_records.shapes import read
from mypt_spec.bodies.strict_json import value_at
from tests.support.build import assistant, call, chat, message, tool, user
from tests.support.maker import any_json, drawn

KEYS = ["type", "properties", "required", "items", "default", "additionalProperties", "a", "$ref"]
TYPES = ["string", "dict", "float", "any", None, True, ["a"], 3, "#"]
NAMES, IDS = ("f", "g"), ("1", "2")
TEXTS = st.text("a{}<|>s/_im end\n", max_size=12) | st.sampled_from(["{{name}}", "</s>", "noinput"])


def declaration(random: Random) -> Any:
    parameters = any_json(random, KEYS, TYPES)
    return {
        "type": "function",
        "function": {"name": random.choice(NAMES), "parameters": parameters},
    }


def spoken(random: Random) -> Any:
    """Returns a message: a text, calls with arguments of any kind, or a result."""
    kind = random.randrange(3)
    if kind == 0:
        text = "".join(random.choice("a{}<|>s/_im end\n") for _ in range(random.randrange(12)))
        return message(random.choice(("system", "user", "assistant")), text)
    if kind == 1:
        return tool("4", tool_call_id=random.choice(IDS), name=random.choice(NAMES))
    asked = []
    for _ in range(random.randint(1, 3)):
        value = any_json(random)
        arguments = random.choice((value, json.dumps(value), {random.choice(NAMES): None}))
        asked.append(call(random.choice(NAMES), arguments, id=random.choice(IDS)))
    return assistant(None, tool_calls=asked)


MESSAGES, TOOLS = drawn(spoken), drawn(declaration)


@given(st.lists(MESSAGES, min_size=1, max_size=7), st.lists(TOOLS, max_size=3))
def test_findings_name_what_is_in_the_record(messages: list[Any], tools: list[Any]) -> None:
    record = {"messages": messages, "tools": tools}
    for finding in findings(read(record, "openai")):
        parent = finding.pointer.rpartition("/")[0]
        assert value_at(record, finding.pointer) is not None or value_at(record, parent) is not None
        if finding.span is not None:
            text = value_at(record, finding.pointer)
            assert 0 <= finding.span[0] <= finding.span[1] <= len(text)


def misspelt(random: Random) -> Any:
    """Returns a message with faults that have one meaning."""
    made = spoken(random)
    if isinstance(made.get("content"), str):
        made["content"] += random.choice(("", "<|im_end|>", "</s>\n"))
        if random.randrange(3) == 0:
            made["content"] = [
                {"type": "text", random.choice(("content", "text")): made["content"]}
            ]
    if "tool_calls" in made and random.randrange(2):
        for one in made["tool_calls"]:
            one["function"]["arguments"] = repr(any_json(random))
        made["tool_call"] = made.pop("tool_calls")
    made["role"] = random.choice((made["role"], "gpt", "Human", "assistent", "poet"))
    return made


def words(value: Any) -> str:
    """Returns what a record says: its letters and digits, without names and tags."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    for tag in ("<|im_end|>", "</s>", "\\n"):
        text = text.replace(tag, "")
    return "".join(sorted(filter(str.isdigit, text)))


@given(st.lists(drawn(misspelt), min_size=1, max_size=4), st.lists(TOOLS, max_size=2))
def test_fixes_take_findings_away_and_nothing_else(messages: list[Any], tools: list[Any]) -> None:
    record = {"messages": messages, "tools": tools}
    checker = Checker(mypt_spec.dialect("mypt"), shape="openai", formatless=True)
    fixer = Fixer(checker)
    line = json.dumps(record).encode()
    fixed, made = fixer.line(line, row=2)
    assert fixed is not None
    before, after = (
        Counter(f.code for f in fixer.findings(text.decode(), row=2)) for text in (line, fixed)
    )
    assert after <= before
    assert bool(made) == (fixed != line)
    assert fixer.line(fixed, row=2) == (fixed, Counter()), "fixing twice is fixing once"
    assert words(json.loads(fixed)) == words(record), "no value is lost"


@given(st.lists(TEXTS.filter(str.strip), min_size=1, max_size=4))
def test_questions_and_answers_in_turn_have_findings_about_texts_alone(texts: list[str]) -> None:
    turns = [one for text in texts for one in (user(), assistant(text))]
    about = findings(read(chat(*turns), "openai"))
    assert {f.code for f in about} <= {"MYP301", "MYP358"}
