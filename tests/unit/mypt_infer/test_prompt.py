"""What a user can do while typing, with prompt_toolkit's own input and output for tests."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mypt_infer.chat.prompt import Prompt, history_file, typed

pytest.importorskip("prompt_toolkit")

PASTE = "\x1b[200~{}\x1b[201~"
UP, LEFT, CTRL_C, CTRL_D, CTRL_R, ALT_ENTER = "\x1b[A", "\x1b[D", "\x03", "\x04", "\x12", "\x1b\r"


@contextmanager
def terminal(
    history: Path | None = None, hints: list[str] | None = None
) -> Iterator[tuple[Prompt, Callable[[str], None]]]:
    from prompt_toolkit.application import create_app_session
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        told: Any = (hints if hints is not None else []).append
        yield Prompt(typed(history, ["/undo", "/save", "/system"]), hint=told), keys.send_text


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("Hello\r", "Hello"), (f"Helo{LEFT}l\r", "Hello"), ("One \\\rtwo\r", "One \ntwo"), (f"One{ALT_ENTER}two\r", "One\ntwo"),
        (PASTE.format("One\ntwo\nthree") + "\r", "One\ntwo\nthree"),
        (PASTE.format("def f():\r    return 1\r\rf()") + " ?\r", "def f():\n    return 1\n\nf() ?"), ("x" * 2000 + "\r", "x" * 2000),
        ("C:\\ and \\n\r", "C:\\ and \\n"), ("/un\t\r", "/undo"), ("\r", ""), ("ü😀漢\r", "ü😀漢"),
    ],
)  # fmt: skip
def test_what_is_typed_is_what_is_said(keys: str, said: str) -> None:
    with terminal() as (prompt, press):
        press(keys)
        assert prompt.read() == said


def test_names_of_files_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "chats.jsonl").write_text("")
    monkeypatch.chdir(tmp_path)
    with terminal() as (prompt, press):
        press("/sa\t ch\t\rch\t\r")
        assert prompt.read() == "/save chats.jsonl"
        assert prompt.read() == "ch"


def test_several_texts_are_there_again(tmp_path: Path) -> None:
    """Also those of several lines, in the next session."""
    path = tmp_path / "history"
    with terminal(path) as (prompt, press):
        press("First\r" + PASTE.format("One\ntwo") + "\r")
        assert prompt.read() == "First"
        assert prompt.read() == "One\ntwo"
    with terminal(path) as (prompt, press):
        for keys, said in (
            (UP, "One\ntwo"),
            (f"{UP}{UP}{UP}", "First"),
            (f"{CTRL_R}tw\r", "One\ntwo"),
        ):
            press(f"{keys}\r")
            assert prompt.read() == said


def test_ctrl_c_takes_a_text_back_and_leaves_at_the_second_time() -> None:
    hints: list[str] = []
    with terminal(hints=hints) as (prompt, press):
        press(f"wrong{CTRL_C}right\r{CTRL_C}again\r")
        assert prompt.read() == "right"
        assert prompt.read() == "again"
        assert len(hints) == 2
        press(f"wrong{CTRL_C}more{CTRL_C}{CTRL_C}")
        with pytest.raises(EOFError):
            prompt.read()
        press(CTRL_D)
        with pytest.raises(EOFError):
            prompt.read()


def test_a_text_can_be_edited() -> None:
    with terminal() as (prompt, press):
        press("?\r")
        assert prompt.edit("And now") == "And now?"
        press(CTRL_C)
        assert prompt.edit("And now") is None


def test_nobody_else_reads_the_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = history_file()
    assert path == tmp_path / "state" / "mypt-tags" / "chat_history"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    assert history_file() == path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert history_file() is None
