"""Conversations are judged in pieces: few pieces for many conversations, and none too lenient."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_filter import CleanFilter

Record = dict[str, Any]
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("find", "read", "write")
]


def call(i: int, tool: str = "find", **arguments: Any) -> list[Record]:
    function = {"name": tool, "arguments": json.dumps({"q": f"query {i}", "top": i} | arguments)}
    asked = {"role": "assistant", "reasoning_content": f"I look {i} times.", "content": None}
    asked["tool_calls"] = [{"id": f"call_{i}", "type": "function", "function": function}]
    return [asked, {"role": "tool", "tool_call_id": f"call_{i}", "content": f"Result {i}."}]


def record(steps: int, first: int = 0) -> Record:
    messages: list[Record] = [{"role": "user", "content": f"Question {first}?"}]
    for i in range(first, first + steps):
        messages += call(i, TOOLS[i % 3]["function"]["name"])
    messages += [{"role": "assistant", "content": f"Answer {steps}."}]
    return {"messages": [*messages, *messages], "tools": TOOLS}


def lines(records: list[Record]) -> list[bytes]:
    return [json.dumps(each).encode() for each in records]


def test_long_conversations_share_their_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Speed must not die in silence: what is asked does not grow with the number of steps."""
    asked = 0
    line = Checker.line

    def counted(self: Checker, *args: Any, **more: Any) -> Any:
        nonlocal asked
        asked += 1
        return line(self, *args, **more)

    monkeypatch.setattr(Checker, "line", counted)
    prover = CleanFilter(Checker(mypt_spec.dialect("qwen3")))
    given = lines([record(steps, first) for steps in range(30) for first in (0, 7)])
    assert prover.doubtful(given) == []
    assert asked < 12


def set_(change: Callable[[list[Record]], Any]) -> Callable[[Record], Any]:
    return lambda made: change(made["messages"])


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (set_(lambda m: m.insert(3, {"role": "user", "content": "And?"})), "MYP"),
        (set_(lambda m: m[2].update(tool_call_id="call_9")), "MYP310"),
        (set_(lambda m: m[4].update(tool_call_id="call_0")), "MYP310"),
        (set_(lambda m: m[2].update(name="write")), "MYP312"),
        (set_(lambda m: m[1].update(thinking="Something else.")), "MYP121"),
        (set_(lambda m: m.clear()), "MYP"),
        (set_(lambda m: m.pop()), ""),
        (set_(lambda m: m.pop(5)), "MYP"),
        (set_(lambda m: m.insert(0, {"role": "assistant", "content": "a"})), "MYP"),
        (set_(lambda m: m.insert(5, {"role": "system", "content": "a"})), "MYP"),
        (set_(lambda m: m[1]["tool_calls"][0]["function"].update(arguments='{"q": 1, "q": 1}')), "MYP"),
        (set_(lambda m: m[1]["tool_calls"][0]["function"].update(arguments='{"q": "a", "top": 1, "top": 1}')), "MYP"),
        (set_(lambda m: m[1]["tool_calls"][0]["function"].update(arguments='{"q": "<|im_end|>", "top": 1}')), "MYP302"),
        (set_(lambda m: m[1]["tool_calls"][0]["function"].update(arguments={"q": "<|im_end|>", "top": 1})), "MYP302"),
        (set_(lambda m: m[1]["tool_calls"][0]["function"].update(arguments="{")), "MYP"),
        (set_(lambda m: m[1]["tool_calls"][0]["function"].update(arguments="[1]")), "MYP"),
        (set_(lambda m: m[1]["tool_calls"][0]["function"].update(arguments='{"q": 9999999999999999999}')), ""),
        (set_(lambda m: m[1]["tool_calls"][0]["function"].update(name="unknown")), ""),
        (set_(lambda m: m[1]["tool_calls"][0].update(type="custom")), "MYP"),
        (set_(lambda m: m[3].update(content="<tool_call>")), "MYP"),
        (set_(lambda m: m[-1].update(content=" ")), "MYP314"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_left_to_the_checker(change: Callable[[Record], Any], code: str) -> None:
    """After many clean ones, so that all pieces are known."""
    checker = Checker(mypt_spec.dialect("qwen3"))
    prover = CleanFilter(checker)
    good = lines([record(steps, first) for steps in range(5) for first in (0, 1, 2)])
    assert prover.doubtful(good) == []
    made = json.loads(json.dumps(record(2)))
    change(made)
    (line,) = lines([made])
    found = [item.finding.code for item in checker.line(line, row=2, filename="")]
    assert bool(code) <= bool([c for c in found if c.startswith(code)]), found
    for _ in range(2):
        assert prover.clean(line) <= (not found), found
    assert prover.doubtful([*good, line]) in ([], [len(good)])


def test_two_names_of_a_thought_are_compared() -> None:
    """Equal ones are clean; so the same record with others must not be taken for it."""
    same, other = record(1), record(1)
    for made, text in ((same, "I look 0 times."), (other, "Not at all.")):
        for message in made["messages"]:
            if "reasoning_content" in message:
                message["thinking"] = text
    checker = Checker(mypt_spec.dialect("qwen3"))
    prover = CleanFilter(checker)
    equal, differs = lines([same, other])
    assert checker.line(equal, row=2, filename="") == []
    prover.clean(equal)
    assert checker.line(differs, row=2, filename="") != []
    assert not prover.clean(differs)


def test_a_line_that_may_have_too_many_tokens_is_left_to_the_checker() -> None:
    """However well its outline is known."""
    prover = CleanFilter(Checker(mypt_spec.dialect("qwen3"), mypt_spec.Limits(max_tokens=4000)))
    short, long = record(0), record(0)
    long["messages"][0]["content"] = "word " * 500
    assert [prover.clean(line) for line in lines([short, short, long])] == [True, True, False]
