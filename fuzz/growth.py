"""Commands take time in proportion: for twice the data, at most 2.6 times the processor time.

A kind of line (growing.py) is made of n and 4n parts, so large that the last takes long enough to
be measured. A time that is in proportion at a larger size, or at a second look, is fine: only one
that stays out of proportion is an alarm.

`python -m fuzz.growth --minutes 20` looks at strata (a dialect or a shape of records of other
tools, a kind of line, a way to run the linter) by chance. `--sweep FILE` looks at each of them, and
notes in the file which are done, so that it can be stopped and go on. With `--sample N --seed S` it
looks at N of each dialect and shape, the same for the same seed.
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

from fuzz import clock
from fuzz.driver import run
from fuzz.growing import SHAPES, forms, kinds, line
from mypt.lint.cli import main as lint

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
    """A kind of line of a dialect or shape, and a way to run the linter over it."""

    dialect: str
    kind: str
    way: str


@st.composite
def _inputs(draw: st.DrawFn) -> dict[str, str]:
    name = draw(st.sampled_from(forms()))
    kind = draw(st.sampled_from(kinds(name)))
    return Stratum(name, kind, draw(st.sampled_from(list(WAYS))))._asdict()


STRATEGY = _inputs()


def check(value: dict[str, Any]) -> None:
    seconds = growth(**value) and growth(**value)  # a busy machine may disturb one look
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
    clock.look()
    gc.collect()
    gc.disable()
    here = Path.cwd()
    try:
        os.chdir(path.parent)
        with Path(os.devnull).open("w") as sink, redirect_stdout(sink), redirect_stderr(sink):
            before = time.process_time()
            form = "--records" if dialect in SHAPES else "--dialect"
            lint([path.name, form, dialect, "--no-config", "-j", "1", *WAYS[way]])
            return time.process_time() - before
    finally:
        os.chdir(here)
        gc.enable()


def strata(dialects: Iterable[str], *, sample: int | None = None, seed: int = 0) -> list[Stratum]:
    """Returns all strata of dialects in an order that shows each sort of them early.

    With `sample`, only so many of each dialect, drawn by `seed`, in an order by chance: what is
    looked at is a sample of all dialects whenever the sweep is stopped.
    """
    found = []
    for d in dialects:
        of_one = [Stratum(d, kind, way) for way in WAYS for kind in kinds(d)]
        drawn = len(of_one) if sample is None else min(sample, len(of_one))
        found += random.Random(f"{seed} {d}").sample(of_one, drawn)
    random.Random(seed).shuffle(found)
    ways = list(WAYS)
    return found if sample is not None else sorted(found, key=lambda s: ways.index(s.way))


def sweep(chosen: list[Stratum], notes: Path, *, minutes: float, share: tuple[int, int]) -> int:
    """Looks at all strata that a file does not name yet, and adds each to it. Returns 1 where the
    file then names an alarm among them, else 0.

    `share` (i, n): of n processes with a file each, the i-th, counted from 0.
    """
    lines = notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []
    chosen = chosen[share[0] :: share[1]]
    asked = set(chosen)
    seen = [s for s in map(json.loads, lines) if _stratum(s) in asked]
    known = {_stratum(s) for s in seen}
    left = [s for s in chosen if s not in known]
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


def _stratum(entry: dict[str, Any]) -> Stratum:
    return Stratum(entry["dialect"], entry["kind"], entry["way"])


def main() -> int:
    """Returns the exit status of the command: 0 no alarm, 1 an alarm."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--sweep", type=Path, metavar="FILE", help="where it notes what is done")
    parser.add_argument("--dialect", action="append", choices=forms(), metavar="NAME")
    parser.add_argument("--sample", type=int, metavar="N", help="only N of each dialect and shape")
    parser.add_argument("--seed", type=int, default=0, help="which N")
    parser.add_argument("--share", default="0/1", metavar="I/N", help="its part of the strata")
    parser.add_argument("--minutes", type=float, default=math.inf)
    if "--sweep" not in sys.argv:
        run("growth")
    given = parser.parse_args()
    first, _, of = given.share.partition("/")
    share = int(first), int(of)
    chosen = strata(given.dialect or forms(), sample=given.sample, seed=given.seed)
    return sweep(chosen, given.sweep, minutes=given.minutes, share=share)


if __name__ == "__main__":
    sys.exit(main())
