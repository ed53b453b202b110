"""Records of other shapes are compared over the whole data, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mypt_lint.dataset.evaluation import reserved_in
from tests.support import build
from tests.support.build import Record, assistant, calls, function, tool, user, write
from tests.support.linting import Linter

TOOLS = [function("find", {"q": {"type": "string"}})]


def chat(answer: str = "Hello.", question: str = "Hi", **more: Any) -> Record:
    return build.chat(user(question), assistant(answer), **more)


def calling(ident: str, query: str = "x") -> Record:
    call = build.call("find", json.dumps({"q": query}), id=ident)
    result = tool("4", tool_call_id=ident)
    messages = (user(), calls(call, content=None), result, assistant("Four."))
    return build.chat(*messages, tools=TOOLS)


LONGER = build.chat(*chat()["messages"], user("And you?"))
PAIR = {"prompt": "Hi", "chosen": "Hello.", "rejected": "No."}
SAME = "MYP601", "the same episode is at chats.json:1"


@pytest.fixture
def lint(folder: Path, lint: Linter) -> Any:
    def run(*records: Any, words: tuple[str, ...] = ()) -> list[tuple[int, str, str]]:
        Path("chats.json").write_text(json.dumps(records, indent=1))
        findings = lint("-q", "--data-set", *words, "chats.json")[1]
        return [(f["record"], f["code"], f["message"]) for f in findings if "record" in f]

    return run


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([chat(), chat("Bye.", "Go"), chat(_id=1)], [(3, *SAME)]),
        (
            [chat(), chat(tools=TOOLS)],
            [(2, "MYP610", "the same conversation, with other tools, is at chats.json:1")],
        ),
        # Ids of calls do not count, and arguments do.
        ([calling("1"), calling("2")], [(2, *SAME)]),
        ([calling("1"), calling("1", "y")], []),
        (
            [chat(), chat("Good day.")],
            [(2, "MYP602", "the same prompt has another answer at chats.json:1")],
        ),
        # Preferences are meant to have several answers.
        ([PAIR, PAIR | {"rejected": "Go."}], []),
        ([PAIR, PAIR], [(2, *SAME)]),
    ],
)
def test_conversations_are_compared(lint: Any, records: list[Record], expected: list[Any]) -> None:
    assert lint(*records) == expected


def test_the_same_answer_with_more_after_it_is_no_other_answer(lint: Any) -> None:
    findings = lint(chat(), LONGER, chat("Good day."))
    assert [row for row, code, _ in findings if code == "MYP602"] == [3]


@pytest.mark.usefixtures("folder")
def test_questions_of_evaluation_files() -> None:
    turns = [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "So."}]
    write("eval.jsonl", {"conversations": turns}, chat(question="How?"), {"prompt": "Who?"})
    questions = {r.text: r.is_question for r in reserved_in(["eval.jsonl"])}
    assert [text for text in ("Why?", "How?", "Who?") if questions[text]] == [
        "Why?",
        "How?",
        "Who?",
    ]
    assert not questions["So."]


def test_reserved_prompts_and_evaluation_are_found(lint: Any) -> None:
    Path("prompts.txt").write_text("hi\n")
    words = ("--eval-prompts", "prompts.txt")
    assert [(row, code) for row, code, _ in lint(chat(), words=words)] == [(1, "MYP606")]
    write("eval.jsonl", chat("A", "HI"))
    assert (1, "MYP603") in [(row, code) for row, code, _ in lint(chat(), words=("eval.jsonl",))]
