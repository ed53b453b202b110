"""Conversations that are kept, continued and taken back; each transcript replays and trains."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt.chat import main
from mypt.lint.cli import main as lint
from mypt_infer.chat import commands
from mypt_infer.chat.demo import Demo
from mypt_infer.chat.opening import Setup
from mypt_infer.chat.prompt import Prompt
from mypt_infer.chat.screen import Screen
from mypt_infer.chat.session import Session
from mypt_infer.controller import Options, replay
from mypt_infer.toolbox import Tool, Toolbox
from tests.support.build import read
from tests.support.examples import examples
from tests.support.scripted import ANY

ANCHOR = {"chunk_id": "a-1#0", "title": "Anchor", "text": "The anchor costs 3 euros."}
SEARCH = Tool("workspace.search", "finds", ANY, lambda args: {"documents": [ANCHOR]})


def session(
    path: Path | None = None, dialect: str = "mypt", prompt: Prompt | None = None
) -> tuple[Session, io.StringIO]:
    d, out = mypt_spec.dialect(dialect), io.StringIO()
    calls = dialect != "gabgpt"
    system = "S" if calls else None
    tools = Toolbox([SEARCH] if calls else [])
    setup = Setup(Demo(d, calls=calls), tools, d, Options(context_length=700), system)
    return Session(setup, Screen(out), transcript=path, prompt=prompt), out


def records(path: Path) -> list[dict[str, Any]]:
    return read(path) if path.exists() else []


def questions(path: Path) -> list[list[str]]:
    """Returns what users said in each conversation of a file."""
    return [texts_of(record) for record in records(path)]


def texts_of(record: dict[str, Any]) -> list[str]:
    return [m["content"] for m in record["messages"] if m["role"] == "user"]


def say(chat: Session, *texts: str) -> None:
    """Runs turns, and keeps the conversation."""
    for text in texts:
        chat.turn(text)
    assert chat.keep()


LINES = st.sampled_from([
    "What does the anchor cost?", "And the rope,\nin short?", "word " * 120, "<myPT_eot>", "/undo", "/undo", "/retry", "/edit Again",
    "/edit", "/reset", "/system Be brief.", "/save {}/saved", "/load {}/saved", "/load {}/chats", "/load {}/chats:1", "/load nowhere",
    "end",
])  # fmt: skip


@settings(max_examples=examples(125))
@given(
    dialect=st.sampled_from(["mypt", "gabgpt", "usf-omega", "praxis", "mypt-3b"]),
    lines=st.lists(LINES, max_size=14),
)
@example(dialect="mypt", lines=["word " * 120, "<myPT_eot>", "/save {}/saved", "end", "/load {}/saved", "/edit Again"])  # fmt: skip
@example(dialect="gabgpt", lines=["One", "/retry", "end", "/load {}/chats:1", "/undo", "/undo", "/system Be brief.", "Two"])  # fmt: skip
@example(dialect="usf-omega", lines=["What does the anchor cost?", "/reset", "Two", "/edit", "end", "/load {}/chats"])  # fmt: skip
@example(dialect="praxis", lines=["What does the anchor cost?", "/save {}/saved", "/retry", "/load {}/saved"])  # fmt: skip
def test_whatever_is_done_each_transcript_replays(
    tmp_path_factory: pytest.TempPathFactory, dialect: str, lines: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("chat")
    path = folder / "chats"
    asks = Prompt(lambda text: f"{text} indeed")
    chat, out = session(path, dialect, asks)
    for line in [*lines, "end"]:
        if line == "end":
            assert chat.keep()
            chat, out = session(path, dialect, asks)
        elif line.startswith("/"):
            assert commands.run(chat, line.format(folder))
        else:
            chat.turn(line)
    assert "Traceback" not in out.getvalue()
    for file in (path, folder / "saved"):
        for record in records(file):
            history, _ = replay(record, dialect)
            assert history.ids == record["_transcript"]["ids"]
            if record["messages"]:
                _, findings = history.dialect.check(record)
                assert not [f for f in findings if f.severity == "error"]
    assert {p.name for p in folder.iterdir()} <= {"chats", "saved"}


def test_a_killed_chat_loses_the_turn_in_progress_at_most(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    chat, _ = session(path)
    chat.turn("One")
    chat.turn("Two")
    assert questions(path) == [["One", "Two"]]
    again, _ = session(path)
    say(again, "Three")
    assert questions(path) == [["One", "Two"], ["Three"]]


def test_a_conversation_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    say(session(path)[0], "First")
    say(session(path)[0], "One", "Two\nlines")
    again, out = session(path)
    again.load(str(path))
    nothing = "assistant> Nothing found: the workspace says nothing about that."
    shown = ["user> One", nothing, "user> Two", "lines", nothing]
    assert out.getvalue().splitlines() == shown
    say(again, "Three")
    assert questions(path) == [["First"], ["One", "Two\nlines", "Three"]]
    again.load(f"{path}:1")
    say(again, "More")
    assert questions(path) == [["One", "Two\nlines", "Three"], ["First", "More"]]
    again.load(f"{path}:1")
    assert again.keep()
    assert again.keep()
    assert len(records(path)) == 2, "nothing new was said"
    say(again, "Four")
    assert [len(texts) for texts in questions(path)] == [2, 4]


def test_what_cannot_be_continued_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"messages": []}\n[1\n')
    chat, out = session()
    say(session(tmp_path / "praxis", "praxis")[0], "Hi")
    chat.turn("Stays")
    for place, says in (
        (path, "it has no conversation of a chat"), (f"{path}:1", ':1: this record has no "_transcript"'),
        (f"{path}:2", ":2: this is not valid JSON"), (f"{path}:9", "it has no line 9"), (tmp_path / "none", "No such file"),
        (tmp_path / "praxis", "belongs to another grammar"), ("", "takes the name of a file"),
    ):  # fmt: skip
        commands.run(chat, f"/load {place}")
        assert says in out.getvalue().splitlines()[-1]
    assert [text for text, _ in chat.exchanges()] == ["Stays"]


def test_undo_retry_and_edit() -> None:
    chat, out = session()
    for command in ("/undo", "/retry", "/edit"):
        commands.run(chat, command)
        assert out.getvalue().splitlines()[-1] == f"{command}: nothing was said yet"
    chat.turn("One")
    chat.turn("Two")
    before = chat.controller.record()
    commands.run(chat, "/retry")
    assert chat.controller.record()["messages"] == before["messages"]
    commands.run(chat, "/edit Three")
    assert [text for text, _ in chat.exchanges()] == ["One", "Three"]
    commands.run(chat, "/edit")
    assert "takes the text to say" in out.getvalue()
    commands.run(chat, "/undo")
    assert out.getvalue().splitlines()[-1] == "taken back: 'Three'; 1 turn left"
    commands.run(chat, "/undo")
    commands.run(chat, "/undo")
    assert not chat.controller.history.ids
    chat.turn("Anew")
    assert texts_of(chat.controller.record()) == ["Anew"]


def test_edit_shows_the_last_text_and_can_be_left() -> None:
    shown: list[str] = []
    answers = iter(["Changed", KeyboardInterrupt(True)])

    def ask(text: str) -> str:
        shown.append(text)
        answer = next(answers)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    chat, out = session(prompt=Prompt(ask, hint=lambda text: None))
    chat.turn("One\nand more")
    commands.run(chat, "/edit")
    commands.run(chat, "/edit")
    assert shown == ["One\nand more", "Changed"]
    assert [text for text, _ in chat.exchanges()] == ["Changed"]
    assert out.getvalue().splitlines()[-1] == "nothing was changed"


def test_another_system_prompt_begins_another_conversation(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    chat, out = session(path)
    commands.run(chat, "/system")
    assert out.getvalue().startswith("S\n\nTools:\n- workspace.search")
    chat.turn("One")
    commands.run(chat, "/system Be brief.")
    say(chat, "Two")
    first, second = records(path)
    assert first["system"].startswith("S\n\nTools")
    assert second["system"].startswith("Be brief.\n\nTools")
    plain, out = session(None, "gabgpt")
    commands.run(plain, "/system Be brief.")
    assert "gabgpt has no system prompt" in out.getvalue()


def test_saving_twice_is_one_line(tmp_path: Path) -> None:
    saved, kept = tmp_path / "saved.jsonl", tmp_path / "kept.jsonl"
    chat, out = session(kept)
    chat.turn("One")
    commands.run(chat, f"/save {saved}")
    commands.run(chat, f"/save {saved}")
    chat.turn("Two")
    commands.run(chat, f"/save {saved}")
    commands.run(chat, f"/save {tmp_path}/./kept.jsonl")
    assert "is the file of --transcript: it is there after each turn" in out.getvalue()
    chat.keep()
    assert questions(saved) == [["One", "Two"]]
    assert questions(kept) == [["One", "Two"]]


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "chats.jsonl"

    def chat(*lines: str, options: tuple[str, ...] = ()) -> int:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        return main(["--scripted", "--transcript", str(path), *options])

    assert chat("One", "/undo", "Two", "/retry", "Three") == 0
    assert chat("Four", options=("--resume", str(path))) == 0
    assert questions(path) == [["Two", "Three", "Four"]]
    assert "user> Three" in capsys.readouterr().out
    assert lint([str(path), "--quiet"]) == 0
    assert chat("x", options=("--resume", str(tmp_path / "none"))) == 2
    assert "none: No such file or directory" in capsys.readouterr().err
    assert chat("x", options=("--max-result-tokens", "9")) == 2
    assert "max_result_tokens is 9" in capsys.readouterr().err
    assert chat("x", options=("--tool-seconds", "0")) == 2
    options = ("--max-result-tokens", "99", "--tool-seconds", "inf", "--context-length", "999")
    assert chat("x", options=options) == 0
    used = records(path)[-1]["_transcript"]["replies"][0]["options"]
    limits = [used[name] for name in ("max_result_tokens", "tool_seconds", "context_length")]
    assert limits == [99, None, 999]
