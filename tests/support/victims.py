"""Kill Python code before any of its lines, so that nothing after it runs and no buffer is flushed.

A fork of pytest costs up to 50 ms of processor time, because it has hundreds of megabytes. So code
is killed in forks of a small process, which has imported nothing but the module under test.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from tests.support.children import child

ROOT = Path(__file__).parents[2]
KILLED = 9


class Victims:
    """Processes that have imported a module, and are killed before one of its lines."""

    def __init__(self, parent: Popen[str]) -> None:
        self.parent = parent

    def run(self, code: str, *, at: int = 0, **names: Any) -> int | None:
        """Runs code with the names of the module, and with others that are JSON.

        It is killed before the `at`-th line of the module that it runs; by 0 never. Returns how
        many lines it has run, or None if it was killed.
        """
        assert self.parent.stdin is not None
        assert self.parent.stdout is not None
        self.parent.stdin.write(json.dumps([code, at, names]) + "\n")
        self.parent.stdin.flush()
        status, lines = json.loads(self.parent.stdout.readline())
        assert status in (0, KILLED), f"it ended with status {status}; see stderr"
        return None if status else int(lines)


@contextmanager
def victims(module: str, folder: str = "") -> Iterator[Victims]:
    """Starts the process for a module, the lines of whose file count, again in each loop.

    With a folder, the lines of all files below it count, each when it is run for the first time.
    """
    command = [sys.executable, "-m", "tests.support.victims", module, folder]
    with child(command, stdin=PIPE, stdout=PIPE, text=True, cwd=ROOT) as parent:
        yield Victims(parent)


def serve(module: str, folder: str) -> None:
    scope = vars(importlib.import_module(module))
    counted, once = str(ROOT / folder) if folder else scope["__file__"], bool(folder)
    for line in sys.stdin:
        code, at, names = json.loads(line)
        answer, end = os.pipe()
        victim = os.fork()
        if not victim:
            os.write(end, str(count_lines(code, scope | names, at, counted, once)).encode())
            os._exit(0)
        os.close(end)
        status = os.waitstatus_to_exitcode(os.waitpid(victim, 0)[1])
        with os.fdopen(answer) as lines:
            print(json.dumps([status, lines.read() or None]), flush=True)


def count_lines(code: str, scope: dict[str, Any], at: int, counted: str, once: bool) -> int:
    lines, seen = 0, set[tuple[str, int]]()

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.startswith(counted):
            return None
        place = frame.f_code.co_filename, frame.f_lineno
        if event == "line" and not (once and place in seen):
            seen.add(place)
            lines += 1
            if lines == at:
                os._exit(KILLED)
        return trace

    sys.settrace(trace)
    try:
        exec(code, scope)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    finally:
        sys.settrace(None)
    return lines


if __name__ == "__main__":
    serve(*sys.argv[1:])
