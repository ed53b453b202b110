"""What tests lean on does what they think: children start with default signals and end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.children import child

HERE = Path(__file__).parent
NAMES = [n for n in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, n)]
DEAF = f"import signal; print([n for n in {NAMES} if signal.getsignal(getattr(signal, n)) is signal.SIG_IGN])"  # fmt: skip
LASTING = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(120)'], close_fds=False)"  # fmt: skip


@pytest.fixture
def deaf() -> Iterator[None]:
    """Ignores signals, as a shell lets the programs do that it starts in the background."""
    before = {name: signal.signal(getattr(signal, name), signal.SIG_IGN) for name in NAMES}
    yield
    for name, handler in before.items():
        signal.signal(getattr(signal, name), handler)


@pytest.mark.usefixtures("deaf")
def test_a_child_hears_signals_that_the_test_ignores() -> None:
    with child([sys.executable, "-c", DEAF], stdout=subprocess.PIPE, text=True) as process:
        assert process.communicate(timeout=60)[0] == "[]\n"
    assert all(signal.getsignal(getattr(signal, n)) is signal.SIG_IGN for n in NAMES)
    plain = subprocess.run([sys.executable, "-c", DEAF], capture_output=True, text=True, check=True)
    assert plain.stdout == f"{NAMES}\n", "without the helper it ignores them"


def test_a_child_ends_with_its_test() -> None:
    with (
        pytest.raises(ZeroDivisionError),
        child([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process,
    ):
        raise ZeroDivisionError
    assert process.returncode == -signal.SIGKILL
    assert process.stdin is not None
    assert process.stdin.closed


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="the system has no process groups")
def test_children_of_a_child_end_with_it() -> None:
    """Where it leads a group: the pipe that they all hold comes to its end."""
    reader, writer = os.pipe()
    with child(
        [sys.executable, "-c", f"import os; os.write({writer}, b'x'); {LASTING}"],
        pass_fds=[writer], start_new_session=True,
    ):  # fmt: skip
        os.close(writer)
        assert os.read(reader, 1) == b"x"
        assert not select.select([reader], [], [], 0.2)[0], "it runs"
    assert select.select([reader], [], [], 60)[0]
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_no_test_starts_a_process_that_nobody_ends() -> None:
    """`subprocess.run` ends what it starts; everything else is for `child`."""
    starts = [
        path.relative_to(HERE).as_posix()
        for path in HERE.rglob("*.py")
        if "Popen(" in path.read_text(encoding="utf-8") and path != Path(__file__)
    ]
    assert starts == ["support/children.py"]
