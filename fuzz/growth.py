"""Commands take time in proportion to their data: twice the data, at most 2.6 times the processor
time.

A kind of line (growing.py) is made of n, 2n and 4n parts, so large that the last takes long enough
to be measured. What a larger size shows to be in proportion is, and what a second look shows to be
is, too: only what stays out of proportion is an alarm.
"""

from __future__ import annotations

import gc
import os
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import mypt_spec
from fuzz.driver import run
from fuzz.growing import kinds, line
from mypt_lint.cli import main

ROUND = 5  # examples between two looks at the clock
WAYS = {
    "lint": ["--data-set"],
    "fix": ["--fix", "--unsafe-fixes", "--data-set", "-o", "fixed.jsonl"],
    "diff": ["--diff"],
}
PER_DOUBLING = 2.6
ENOUGH = 0.3  # seconds of processor time that are measured well
LONG = 4.0  # seconds after which no larger size is tried
LARGEST = 2 << 20  # bytes of a line: what takes less time than that for so much is fast
FIRST = 16


@st.composite
def _inputs(draw: st.DrawFn) -> dict[str, str]:
    name = draw(st.sampled_from(mypt_spec.dialects()))
    kind = draw(st.sampled_from(kinds(name)))
    return {"dialect": name, "kind": kind, "way": draw(st.sampled_from(list(WAYS)))}


STRATEGY = _inputs()


def check(value: dict[str, Any]) -> None:
    seconds = growth(value["dialect"], value["kind"], value["way"])
    assert seconds is None, f"{value}: " + ", ".join(f"{n}: {s:.2f} s" for n, s in seconds.items())


def growth(dialect: str, kind: str, way: str) -> dict[int, float] | None:
    """The times of n, 2n and 4n parts where they are out of proportion, else None."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.jsonl"

        def seconds(n: int, times: int = 1) -> float:
            path.write_bytes(line(dialect, kind, n))
            return min(_seconds(dialect, path, way) for _ in range(times))

        n = FIRST
        while True:
            last = seconds(4 * n)
            if last >= ENOUGH:
                taken = {n: seconds(n, 2), 2 * n: seconds(2 * n, 2), 4 * n: last}
                if last <= PER_DOUBLING**2 * taken[n]:
                    return None
                taken[4 * n] = min(last, seconds(4 * n))
                if taken[4 * n] <= PER_DOUBLING**2 * taken[n]:
                    return None
                if last >= LONG:
                    return taken
            if len(line(dialect, kind, 8 * n)) > LARGEST:
                return None
            n *= 2


def _seconds(dialect: str, path: Path, way: str) -> float:
    """The processor time of a command over a file."""
    gc.collect()
    gc.disable()
    here = Path.cwd()
    try:
        os.chdir(path.parent)
        with Path(os.devnull).open("w") as sink, redirect_stdout(sink), redirect_stderr(sink):
            before = time.process_time()
            main([path.name, "--dialect", dialect, "--no-config", "-j", "1", *WAYS[way]])
            return time.process_time() - before
    finally:
        os.chdir(here)
        gc.enable()


if __name__ == "__main__":
    run("growth")
