"""Commands take time in proportion: for twice the data, at most 2.6 times the processor time.

A kind of line (growing.py) is made of n and 4n parts, so large that the last takes long enough to
be measured. A time that is in proportion at a larger size, or at a second look, is fine: only one
that stays out of proportion is an alarm.

`python -m fuzz.growth --minutes 20` looks at strata (a dialect, a kind of line, a way to run the
linter) by chance. `--sweep FILE` looks at each of them, and notes in the file which are done, so
that it can be stopped and go on.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

import mypt_spec
from fuzz.driver import run
from fuzz.growing import kinds, line
from mypt_lint.cli import main as lint

ROUND = 5  # examples between two looks at the clock
WAYS = {
    "fix": ["--fix", "--unsafe-fixes", "--data-set", "-o", "fixed.jsonl"],
    "diff": ["--diff"],
    "lint": ["--data-set"],
}
PER_DOUBLING = 2.6
ENOUGH = 0.1  # seconds of processor time that are measured well
LONG = 4.0  # seconds after which no larger size is tried
LARGEST = 1 << 20  # bytes of a line: what takes less time than ENOUGH for so much is fast
FIRST = 16


class Stratum(NamedTuple):
    """A kind of line of a dialect, and a way to run the linter over it."""

    dialect: str
    kind: str
    way: str


@st.composite
def _inputs(draw: st.DrawFn) -> dict[str, str]:
    name = draw(st.sampled_from(mypt_spec.dialects()))
    kind = draw(st.sampled_from(kinds(name)))
    return Stratum(name, kind, draw(st.sampled_from(list(WAYS))))._asdict()


STRATEGY = _inputs()


def check(value: dict[str, Any]) -> None:
    seconds = growth(**value)
    assert seconds is None, f"{value}: {shown(seconds)}"


def shown(seconds: dict[int, float]) -> str:
    """Returns times in words."""
    return ", ".join(f"{n}: {s:.2f} s" for n, s in seconds.items())


def growth(dialect: str, kind: str, way: str) -> dict[int, float] | None:
    """Returns the times of n, 2n and 4n parts where they are out of proportion, else None."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.jsonl"

        def seconds(n: int, times: int = 1) -> float:
            path.write_bytes(line(dialect, kind, n))
            return min(_seconds(dialect, path, way) for _ in range(times)) - least

        least = _least(dialect, way)
        n, step = FIRST, 4
        first = seconds(n)
        while True:
            last = seconds(4 * n)
            done = last >= LONG or path.stat().st_size * step > LARGEST
            larger = LARGEST / path.stat().st_size
            step, following = 4, last
            if ENOUGH <= last <= PER_DOUBLING**2 * first:
                if done or not _may_dominate(first, last, larger):
                    return None
            elif last >= ENOUGH:
                taken = {n: seconds(n, 3), 2 * n: seconds(2 * n, 2), 4 * n: seconds(4 * n, 2)}
                taken[4 * n] = min(last, taken[4 * n])
                if done:
                    return taken if taken[4 * n] > PER_DOUBLING**2 * taken[n] else None
                step, following = 2, taken[2 * n]
            if done:
                return None
            n, first = n * step, following


def _may_dominate(first: float, last: float, larger: float) -> bool:
    """Returns whether a square could take most of the time of the largest line.

    `first` and `last` are the times of n and 4n parts; the largest line is `larger` times the last.
    """
    square = max(0.0, (last - 4 * first) * 4 / 3)  # of `last`
    return square * larger**2 > (last - square) * larger


@cache
def _least(dialect: str, way: str) -> float:
    """Returns the processor time of a command that has next to nothing to do."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.jsonl"
        path.write_bytes(line(dialect, "turns", 1))
        return min(_seconds(dialect, path, way) for _ in range(5))


def _seconds(dialect: str, path: Path, way: str) -> float:
    """Returns the processor time of a command over a file."""
    gc.collect()
    gc.disable()
    here = Path.cwd()
    try:
        os.chdir(path.parent)
        with Path(os.devnull).open("w") as sink, redirect_stdout(sink), redirect_stderr(sink):
            before = time.process_time()
            lint([path.name, "--dialect", dialect, "--no-config", "-j", "1", *WAYS[way]])
            return time.process_time() - before
    finally:
        os.chdir(here)
        gc.enable()


def strata(dialects: Iterable[str]) -> list[Stratum]:
    """Returns all strata of dialects in an order that shows each sort of them early."""
    found = [Stratum(d, kind, way) for way in WAYS for d in dialects for kind in kinds(d)]
    places = [*range(len(found))]
    random.Random(0).shuffle(places)
    ways = list(WAYS)
    return [found[i] for i in sorted(places, key=lambda i: ways.index(found[i].way))]


def sweep(dialects: Iterable[str], notes: Path, *, minutes: float, share: tuple[int, int]) -> int:
    """Looks at all strata that a file does not name yet, and adds each to it. Returns 1 where the
    file then names an alarm, else 0.

    `share` (i, n): of n processes with a file each, the i-th, counted from 0.
    """
    lines = notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []
    seen = [json.loads(entry) for entry in lines]
    known = {Stratum(s["dialect"], s["kind"], s["way"]) for s in seen}
    left = [s for s in strata(dialects)[share[0] :: share[1]] if s not in known]
    alarms = [s for s in seen if s["seconds"]]
    end = time.monotonic() + 60 * minutes
    gc.freeze()  # or each measurement begins with a look at all modules
    with notes.open("a", encoding="utf-8") as out:
        for stratum in left:
            if time.monotonic() > end:
                break
            seconds = growth(*stratum)
            entry = {**stratum._asdict(), "seconds": seconds}
            print(json.dumps(entry), file=out, flush=True)
            seen.append(entry)
            if seconds is not None:
                alarms.append(entry)
                print(f"{stratum}: {shown(seconds)}", flush=True)
    print(f"{len(seen)} of {len(left) + len(known)} strata were looked at: {len(alarms)} alarms")
    return 1 if alarms else 0


def main() -> int:
    """Returns the exit status of the command: 0 no alarm, 1 an alarm."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--sweep", type=Path, metavar="FILE", help="where it notes what is done")
    parser.add_argument("--dialect", action="append", choices=mypt_spec.dialects())
    parser.add_argument("--share", default="0/1", metavar="I/N", help="its part of the strata")
    parser.add_argument("--minutes", type=float, default=math.inf)
    if "--sweep" not in sys.argv:
        run("growth")
    given = parser.parse_args()
    first, _, of = given.share.partition("/")
    share = int(first), int(of)
    dialects = given.dialect or mypt_spec.dialects()
    return sweep(dialects, given.sweep, minutes=given.minutes, share=share)


if __name__ == "__main__":
    sys.exit(main())
