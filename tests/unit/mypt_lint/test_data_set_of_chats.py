"""Records of other shapes are compared over the whole data, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mypt_lint.cli import main

TOOLS = [{"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}]


def chat(answer: str = "Hello.", asked: str = "Hi", **more: Any) -> dict[str, Any]:
    talk = [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
    return {"messages": talk} | more


def calling(ident: str, query: str = "x") -> dict[str, Any]:
    function = {"name": "find", "arguments": json.dumps({"q": query})}
    call = {"id": ident, "type": "function", "function": function}
    talk = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": ident, "content": "4"},
        {"role": "assistant", "content": "Four."},
    ]
    return {"messages": talk, "tools": TOOLS}


@pytest.fixture
def lint(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    monkeypatch.chdir(tmp_path)

    def run(*records: Any, words: tuple[str, ...] = ()) -> list[tuple[int, str, str]]:
        Path("chats.json").write_text(json.dumps(records, indent=1))
        main(["-q", "--data-set", "--format", "json", *words, "chats.json"])
        items = json.loads(capsys.readouterr().out)
        return [(f["record"], f["code"], f["message"]) for f in items]

    return run


def test_the_same_conversation_is_found(lint: Any) -> None:
    assert lint(chat(), chat("Bye.", "Go"), chat(_id=1)) == [
        (3, "MYP601", "the same episode stands at chats.json:1")
    ]


def test_with_and_without_tools_it_is_the_same_conversation(lint: Any) -> None:
    assert lint(chat(), chat(tools=TOOLS)) == [
        (2, "MYP610", "the same conversation, with other tools, is at chats.json:1")
    ]


def test_ids_of_calls_do_not_count_and_arguments_do(lint: Any) -> None:
    assert lint(calling("1"), calling("2")) == [
        (2, "MYP601", "the same episode stands at chats.json:1")
    ]
    assert lint(calling("1"), calling("1", "y")) == []


def test_the_same_answer_with_more_after_it_is_no_other_answer(lint: Any) -> None:
    longer = chat()
    longer["messages"].append({"role": "user", "content": "And you?"})
    found = lint(chat(), longer, chat("Good day."))
    assert [row for row, code, _ in found if code == "MYP602"] == [3]


def test_another_answer_to_the_same_prompt_is_found(lint: Any) -> None:
    assert lint(chat(), chat("Good day.")) == [
        (2, "MYP602", "the same prompt has another answer at chats.json:1")
    ]


def test_preferences_are_meant_to_have_several_answers(lint: Any) -> None:
    pair = {"prompt": "Hi", "chosen": "Hello.", "rejected": "No."}
    assert lint(pair, pair | {"rejected": "Go."}) == []
    assert lint(pair, pair) == [(2, "MYP601", "the same episode stands at chats.json:1")]


def test_reserved_prompts_and_evaluation_are_found(lint: Any) -> None:
    Path("prompts.txt").write_text("hi\n")
    words = ("--eval-prompts", "prompts.txt")
    assert [(row, code) for row, code, _ in lint(chat(), words=words)] == [(1, "MYP606")]
    Path("eval.jsonl").write_text(json.dumps(chat("A", "HI")) + "\n")
    assert (1, "MYP603") in [(row, code) for row, code, _ in lint(chat(), words=("eval.jsonl",))]
