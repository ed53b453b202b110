"""Conversations are judged in pieces: few pieces for many conversations, and none too lenient."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_filter import CleanFilter
from tests.support import build
from tests.support.build import Record, assistant, chat, lines, system, user
from tests.support.linting import codes_of

TOOLS = [build.function(name, additionalProperties=True) for name in ("find", "read", "write")]


def step(i: int, name: str = "find") -> list[Record]:
    """A call and its result."""
    arguments = json.dumps({"q": f"query {i}", "top": i})
    calling = build.call(name, arguments, id=f"call_{i}")
    thought = {"reasoning_content": f"I look {i} times."}
    result = build.tool(f"Result {i}.", tool_call_id=f"call_{i}")
    return [build.calls(calling, content=None, **thought), result]


def record(steps: int, first: int = 0) -> Record:
    messages = [user(f"Question {first}?")]
    for i in range(first, first + steps):
        messages += step(i, ("find", "read", "write")[i % 3])
    messages += [assistant(f"Answer {steps}.")]
    return chat(*messages, *messages, tools=TOOLS)


def test_long_conversations_share_their_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Speed must not die in silence: what is asked does not grow with the number of steps."""
    count = 0
    line = Checker.line

    def counted(self: Checker, *args: Any, **more: Any) -> Any:
        nonlocal count
        count += 1
        return line(self, *args, **more)

    monkeypatch.setattr(Checker, "line", counted)
    prover = CleanFilter(Checker(mypt_spec.dialect("qwen3")))
    assert prover.doubtful(lines(*(record(n, first) for n in range(30) for first in (0, 7)))) == []
    assert count < 12


def arguments(value: Any) -> Callable[[list[Record]], Any]:
    """Replaces the arguments of the first call."""
    return lambda m: m[1]["tool_calls"][0]["function"].update(arguments=value)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda m: m.insert(3, user("And?")), "MYP"),
        (lambda m: m[2].update(tool_call_id="call_9"), "MYP310"),
        (lambda m: m[4].update(tool_call_id="call_0"), "MYP310"),
        (lambda m: m[2].update(name="write"), "MYP312"),
        (lambda m: m[1].update(thinking="Something else."), "MYP121"),
        (lambda m: m.clear(), "MYP"),
        (lambda m: m.pop(), ""),
        (lambda m: m.pop(5), "MYP"),
        (lambda m: m.insert(0, assistant("a")), "MYP"),
        (lambda m: m.insert(5, system("a")), "MYP"),
        (arguments('{"q": 1, "q": 1}'), "MYP"),
        (arguments('{"q": "a", "top": 1, "top": 1}'), "MYP"),
        (arguments('{"q": "<|im_end|>", "top": 1}'), "MYP302"),
        (arguments({"q": "<|im_end|>", "top": 1}), "MYP302"),
        (arguments("{"), "MYP"),
        (arguments("[1]"), "MYP"),
        (arguments('{"q": 9999999999999999999}'), ""),
        (lambda m: m[1]["tool_calls"][0]["function"].update(name="unknown"), ""),
        (lambda m: m[1]["tool_calls"][0].update(type="custom"), "MYP"),
        (lambda m: m[3].update(content="<tool_call>"), "MYP"),
        (lambda m: m[-1].update(content=" "), "MYP314"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_left_to_the_checker(
    change: Callable[[list[Record]], Any], code: str
) -> None:
    """After many clean ones, so that all pieces are known."""
    checker = Checker(mypt_spec.dialect("qwen3"))
    prover = CleanFilter(checker)
    good = lines(*(record(steps, first) for steps in range(5) for first in (0, 1, 2)))
    assert prover.doubtful(good) == []
    changed = json.loads(json.dumps(record(2)))
    change(changed["messages"])
    (line,) = lines(changed)
    codes = codes_of(checker, line)
    assert bool(code) <= bool([c for c in codes if c.startswith(code)]), codes
    for _ in range(2):
        assert not codes or prover.doubtful([line]), codes
    assert prover.doubtful([*good, line]) in ([], [len(good)])


def test_two_names_of_a_thought_are_compared() -> None:
    """Equal ones are clean; so the same record with others must not be taken for it."""
    same, other = record(1), record(1)
    for changed, text in ((same, "I look 0 times."), (other, "Not at all.")):
        for message in changed["messages"]:
            if "reasoning_content" in message:
                message["thinking"] = text
    checker = Checker(mypt_spec.dialect("qwen3"))
    prover = CleanFilter(checker)
    equal, differs = lines(same, other)
    assert codes_of(checker, equal) == []
    prover.doubtful([equal])
    assert codes_of(checker, differs) != []
    assert prover.doubtful([differs])


def test_a_line_that_may_have_too_many_tokens_is_left_to_the_checker() -> None:
    """However well its skeleton is known."""
    prover = CleanFilter(Checker(mypt_spec.dialect("qwen3"), mypt_spec.Limits(max_tokens=4000)))
    short, long = record(0), record(0)
    long["messages"][0]["content"] = "word " * 500
    assert [not prover.doubtful([line]) for line in lines(short, short, long)] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("formatless", [True, False, None])
def test_quotes_in_texts_hide_no_key(formatless: bool | None) -> None:
    """A text with as many quotes as a key that the reader passes over: written so, they count."""
    shape = None if formatless is None else "openai"
    checker = Checker(mypt_spec.dialect("qwen3"), shape=shape, formatless=bool(formatless))
    (plain,) = lines(chat(user("Say hi."), assistant("Well, hi.")))
    quoted = plain.replace(b"hi.", rb"\u0022hi\u0022 or \u0022yo\u0022.", 1)
    keyed = plain.replace(b'"content"', b'"odd": "y", "content"', 1)
    both = quoted.replace(b'"content"', b'"odd": "y", "content"', 1)
    escaped = plain.replace(b"hi.", rb"\"hi\".")
    prover = CleanFilter(checker)
    assert prover.doubtful([plain, escaped]) == prover.doubtful([quoted]) == []
    assert [prover.doubtful([line]) for line in (keyed, both)] == [[0], [0]]
    assert prover.doubtful([plain, both, escaped]) == [1]
