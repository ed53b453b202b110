"""Shares what the fuzzers need: the command line, the loop, and the corpus of broken inputs.

An invariant is a module with `STRATEGY` (of values that JSON can hold, or of bytes) and
`check(value)`, which raises when the invariant does not hold. `tests/test_corpus.py` replays the
corpus.

A command ends at most a minute after the time it was given, however slow the machine is: the clock
is read before each example, imports count, and a broken input is shrunk for a few seconds only.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

import fuzz
from fuzz import clock

INVARIANTS = (
    "round_trip",
    "mask",
    "total_parsing",
    "automaton_lark",
    "fix_idempotence",
    "turns",
    "queries",
    "batch",
    "findings_cache",
    "sequences",
    "growth",
)
CORPUS = Path(__file__).parent / "corpus"
ROUND = 200  # examples of one seed
LEAST = 1.0  # seconds that each invariant has, however short the time is
SHRINKING = 15.0  # seconds in which a broken input is made smaller
GRACE = 20.0  # seconds after the end in which a search may still finish an example, and shrink


def load(path: Path) -> Any:
    return (
        path.read_bytes() if path.suffix == ".bin" else json.loads(path.read_text(encoding="utf-8"))
    )


def store(name: str, value: Any) -> Path:
    """Keeps an input in the corpus, under the hash of its bytes."""
    data = value if isinstance(value, bytes) else (json.dumps(value, indent=1) + "\n").encode()
    path = (
        CORPUS
        / name
        / (
            hashlib.sha256(data).hexdigest()[:16]
            + (".bin" if isinstance(value, bytes) else ".json")
        )
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@dataclass
class _Search:
    """The search for an input that breaks an invariant, until `end`.

    There is at least one example. A broken input may be shrunk until `latest`.
    """

    module: ModuleType
    end: float
    latest: float
    examples: int = 0
    broken: Any = None
    report: str = ""

    def round(self, number: int) -> None:
        """Tries the examples of a seed. Raises TimeIsUp at the end, or what `check` raises."""

        @seed(number)
        @settings(
            max_examples=ROUND, database=None, deadline=None, report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink],
        )  # fmt: skip
        @given(self.module.STRATEGY)
        def examples(value: Any) -> None:
            self.check(value)

        examples()

    def check(self, value: Any) -> None:
        if (self.examples or self.report) and clock.now() > self.end:
            raise clock.TimeIsUp
        try:
            self.module.check(value)
        except Exception:
            if not self.report:
                self.end = min(clock.now() + SHRINKING, self.latest)
            # Hypothesis shrinks: the last one is the smallest.
            self.broken, self.report = value, traceback.format_exc()
            raise
        self.examples += 1


def search(name: str, first: int, *, end: float, latest: float) -> bool:
    """Searches from seed `first` on until `end`, by the clock. Returns whether the invariant held.

    The smallest input that broke it goes to the corpus.
    """
    state = _Search(import_module(f"fuzz.{name}"), end, latest)
    number = first
    try:
        while True:
            state.round(number)
            number += 1
    except clock.TimeIsUp:
        pass
    except Exception:
        if not state.report:
            raise
    if state.report:
        path = store(name, state.broken)
        print(f"{state.report}{name}: broken with seed {number}; input kept in {path}", flush=True)
        return False
    print(f"{name}: held for {state.examples} examples from seed {first} on", flush=True)
    return True


def main(names: Sequence[str], argv: Sequence[str] | None = None) -> int:
    """Runs the command line. Exit status: 0 all held, 1 one was broken."""
    parser = argparse.ArgumentParser(
        description=f"Look for inputs that break: {', '.join(names)}.",
        epilog="example: python -m fuzz --minutes 5 --seed 1",
    )
    parser.add_argument(
        "--minutes", type=float, default=5.0, help="time in all (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=None, help="a seed that was printed before (default: a new one)"
    )
    arguments = parser.parse_args(argv)
    first = random.SystemRandom().randrange(2**32) if arguments.seed is None else arguments.seed
    print(f"seed {first}", flush=True)
    end = fuzz.STARTED + 60 * arguments.minutes
    clock.stop_at(end + GRACE)
    for name in names:  # before the time is shared out, so that none pays for what others import
        import_module(f"fuzz.{name}")
    held = []
    for remaining, name in zip(range(len(names), 0, -1), names, strict=True):
        share = max((end - clock.now()) / remaining, LEAST)
        held.append(search(name, first, end=clock.now() + share, latest=end + GRACE))
    return 0 if all(held) else 1


def run(name: str) -> None:
    sys.exit(main((name,)))
