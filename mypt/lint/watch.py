"""Runs a command again whenever a file changes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from mypt_cli.errors import UsageError

_PAUSE = 0.3  # seconds between two looks
_State = dict[str, tuple[int, int]]


def watch(run: Callable[[], int], paths: Callable[[], Sequence[str]]) -> NoReturn:
    """Runs, and again after each change of the files that `paths` returns, until interrupted."""
    while True:
        before = _state(paths)
        if sys.stdout.isatty():
            sys.stdout.write("\x1b[2J\x1b[H")
        try:
            run()
        except UsageError as error:  # a file that is being replaced, for one
            print(f"mypt-lint: error: {error}", file=sys.stderr)
        sys.stdout.flush()
        print("watching for changes; stop with Ctrl-C", file=sys.stderr, flush=True)
        while _state(paths) == before:
            time.sleep(_PAUSE)


def _state(paths: Callable[[], Sequence[str]]) -> _State:
    """Returns when each file was last written, and its size."""
    out: _State = {}
    try:
        for path in paths():
            status = os.stat(path)
            out[path] = (status.st_mtime_ns, status.st_size)
    except (OSError, UsageError):
        pass
    return out
