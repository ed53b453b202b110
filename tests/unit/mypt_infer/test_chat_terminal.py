"""The chat on a terminal, as a user has it: a process of its own with a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from mypt import chat as cli
from mypt_infer.workspace.index.store import default_index, locked
from tests.support.build import read
from tests.support.children import end, start

pytest.importorskip("prompt_toolkit")

# The seconds after which a screen does not come any more.
PATIENCE = 60
PASTE = "\x1b[200~{}\x1b[201~"
# After Ctrl-C. `input` and prompt_toolkit hear one that comes just before they wait only with the
# next one; so it is typed again, and may then come while Python ends.
LEFT = (0, -signal.SIGINT)
LONG = "x" * 4200  # more than a line of a terminal may have
# Makes the terminal that of the process, so that its window can be closed; then the chat begins.
CHAT = """
import fcntl, sys, termios, time
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
{}
from mypt import chat as cli
sys.exit(cli.main(sys.argv[1:]))
"""
PLAIN = 'sys.modules["prompt_toolkit"] = None'
SLOW = """
from mypt_infer.workspace import WorkspaceTools
WorkspaceTools.workspace_search = lambda *given: time.sleep(60)
"""


class Terminal:
    """A chat on a pseudo-terminal; `screen` is what it has written."""

    def __init__(self, home: Path, *options: str, script: str = "") -> None:
        self.master, slave = pty.openpty()
        env = {"XDG_STATE_HOME": str(home / "state"), "XDG_CACHE_HOME": str(home / "cache")}
        self.process = start(
            [sys.executable, "-c", CHAT.format(script), "--scripted", *options],
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env=os.environ | env | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
        )  # fmt: skip
        os.close(slave)
        self.raw = ""

    @property
    def screen(self) -> str:
        return re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", self.raw)

    def read(self, seconds: float = 0.2) -> bool:
        """Reads what is there within some seconds; returns whether anything was.

        Raises OSError when the terminal has no other end any more.
        """
        ready = bool(select.select([self.master], [], [], seconds)[0])
        if ready:
            self.raw += os.read(self.master, 65536).decode("utf-8", "replace")
        return ready

    def until(self, text: str, after: int = 0, keys: str = "") -> None:
        """Waits until a text is on the screen, behind so many characters of it.

        `keys` are typed again each few seconds.
        """
        end, again = time.monotonic() + PATIENCE, time.monotonic() + 3
        with suppress(OSError):
            while text not in self.screen[after:] and time.monotonic() < end:
                self.read()
                if keys and time.monotonic() > again:
                    os.write(self.master, keys.encode())
                    again += 3
        assert text in self.screen[after:], f"no {text!r} on the screen:\n{self.screen}"

    def press(self, keys: str) -> int:
        """Types; returns how long the screen was before."""
        before = len(self.screen)
        data = keys.encode()
        while data:  # a terminal takes little at a time
            self.read(0)
            if select.select([], [self.master], [], 0.2)[1]:
                data = data[os.write(self.master, data[:512]) :]
        return before

    def say(self, keys: str) -> None:
        """Says something, and waits for the answer and the next prompt."""
        before = self.press(keys + "\r")
        self.until("assistant> ", before)
        self.until("user>", self.screen.rindex("assistant> "))

    def left(self, keys: str = "") -> int:
        """Returns the exit status, when the process has ended; `keys` are as in `until`."""
        end, again = time.monotonic() + PATIENCE, time.monotonic() + 3
        with suppress(OSError):
            while self.read() or self.process.poll() is None:
                assert time.monotonic() < end, self.screen
                if keys and time.monotonic() > again:
                    os.write(self.master, keys.encode())
                    again += 3
        return self.process.wait(PATIENCE)


@contextmanager
def terminal(home: Path, *options: str, script: str = "", ready: str = "user>") -> Iterator[Terminal]:  # fmt: skip
    made = Terminal(home, *options, script=script)
    try:
        made.until(ready)
        yield made
    finally:
        end(made.process)
        os.close(made.master)


def questions(path: Path) -> list[list[str]]:
    """Returns what the user said in each conversation of a file."""
    return [[m["content"] for m in r["messages"] if m["role"] == "user"] for r in read(path)]


def test_what_a_user_types(tmp_path: Path) -> None:
    """Long texts, pasted texts, corrections, texts taken back; then everything is kept."""
    path = tmp_path / "chats.jsonl"
    with terminal(tmp_path, "--transcript", str(path)) as user:
        user.say(LONG)
        user.say(PASTE.format("One\rtwo\rthree"))
        user.say("Helo\x1b[Dl")
        user.say("\x1b[A")
        user.until("Ctrl-C again", user.press("taken back\x03"), "\x03")
        user.say("Last")
        user.until("Ctrl-C again", user.press("\x03"), "\x03")
        user.press("\x03")
        assert user.left("\x03") in LEFT
    assert questions(path) == [[LONG, "One\ntwo\nthree", "Hello", "Hello", "Last"]]


def test_without_prompt_toolkit_lines_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    with terminal(tmp_path, "--transcript", str(path), script=PLAIN) as user:
        assert "for several lines and a history: pip install" in user.screen
        user.say(LONG)
        user.until("Ctrl-C again", user.press("taken back\x03"), "\x03")
        user.press("\x03")
        assert user.left("\x03") in LEFT
    assert questions(path) == [[LONG]]


@pytest.mark.parametrize("how", ["hang up", "SIGTERM", "SIGKILL"])
def test_however_it_ends_the_turns_are_kept(tmp_path: Path, how: str) -> None:
    path = tmp_path / "chats.jsonl"
    with terminal(tmp_path, "--transcript", str(path)) as user:
        user.say("One")
        user.say("Two")
        if how == "hang up":
            os.close(user.master)
            user.master = os.open(os.devnull, os.O_RDONLY)
        else:
            user.process.send_signal(getattr(signal, how))
        if how == "SIGTERM":
            assert user.left() == 128 + signal.SIGTERM
            assert "\x1b[?2004l" in user.raw.rpartition("\x1b[?2004h")[2], "the terminal is whole"
        assert user.process.wait(PATIENCE) != 0
    assert questions(path) == [["One", "Two"]]
    assert [p.name for p in tmp_path.glob("chats*")] == ["chats.jsonl"]


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals")
def test_a_signal_that_is_lost_is_heard_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where its exception was raised while Python freed an object."""
    monkeypatch.setattr(cli, "_AGAIN", 0.1)
    before = signal.getsignal(signal.SIGTERM)

    def lost() -> None:
        with cli._leaving():
            with suppress(SystemExit):
                signal.raise_signal(signal.SIGTERM)
            time.sleep(30)

    with pytest.raises(SystemExit) as caught:
        lost()
    assert caught.value.code == 128 + signal.SIGTERM
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_turn_is_stopped_at_once(tmp_path: Path) -> None:
    """During a tool that takes a minute; and the chat goes on."""
    (tmp_path / "docs").mkdir()
    path = tmp_path / "chats.jsonl"
    options = ("--workspace", str(tmp_path / "docs"), "--transcript", str(path))
    with terminal(tmp_path, *options, script=SLOW) as user:
        user.until("workspace.search…", user.press("Hi\r"))
        began = time.monotonic()
        before = user.press("\x03")
        user.until("stopping", before)
        user.until("the turn was ended: cancelled", before)
        user.until("user>", user.screen.rindex("cancelled"))
        assert time.monotonic() - began < 40
        user.press("/why\r")
        user.until("the last turn ended with 'cancelled'")
        user.until("user>", user.screen.rindex("the last turn"))
        user.press("\x04")
        assert user.left() == 0


def test_the_index_that_is_there_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process writes it; the first index is waited for, and its progress is shown."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("Anchor\n\nThe anchor costs 3 euros.\n")
    index = default_index(docs)
    done = threading.Event()

    def index_for_long(seen: Any) -> None:
        with locked(index):
            seen.set()
            done.wait(PATIENCE)

    def indexing() -> threading.Thread:
        seen = threading.Event()
        thread = threading.Thread(target=index_for_long, args=(seen,))
        thread.start()
        assert seen.wait(PATIENCE)
        return thread

    other = indexing()
    with terminal(tmp_path, "--workspace", str(docs), ready="another process makes") as user:
        done.set()
        other.join()
        user.until("user>")
        user.say("anchor")
        user.until("The anchor costs 3 euros.")
    done.clear()
    other = indexing()
    with terminal(tmp_path, "--workspace", str(docs)) as user:
        assert "the index is used as it is" in user.screen
        user.say("anchor")
        user.until("The anchor costs 3 euros.")
    done.set()
    other.join()
