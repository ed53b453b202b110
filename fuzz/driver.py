"""Shares what the fuzzers need: the command line, the loop, and the corpus of broken inputs.

An invariant is a module with `STRATEGY` (of values that JSON can hold, or of bytes) and
`check(value)`, which raises when the invariant does not hold. `tests/test_corpus.py` replays the
corpus.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

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
    "growth",
)
CORPUS = Path(__file__).parent / "corpus"
ROUND = 200  # examples between two looks at the clock, where an invariant names no other number


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


def fuzz(name: str, minutes: float, start: int) -> bool:
    """Searches until the time is up. Returns whether the invariant held.

    The smallest input that broke it goes to the corpus.
    """
    module = import_module(f"fuzz.{name}")
    failing: list[Any] = []
    examples = getattr(module, "ROUND", ROUND)

    @settings(
        max_examples=examples, database=None, deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )  # fmt: skip
    @given(module.STRATEGY)
    def once(value: Any) -> None:
        try:
            module.check(value)
        except Exception:
            failing[:] = [value]  # Hypothesis shrinks: the last one is the smallest
            raise

    end = time.monotonic() + 60 * minutes
    rounds = 0
    while time.monotonic() < end:
        try:
            seed(start + rounds)(once)()
        except Exception:
            if not failing:
                raise
            traceback.print_exc()
            print(
                f"{name}: broken with seed {start + rounds}; input kept in "
                f"{store(name, failing[0])}",
                flush=True,
            )
            return False
        rounds += 1
    print(f"{name}: held for {rounds * examples} examples", flush=True)
    return True


def main(names: tuple[str, ...]) -> int:
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
    arguments = parser.parse_args()
    start = random.SystemRandom().randrange(2**32) if arguments.seed is None else arguments.seed
    print(f"seed {start}", flush=True)
    held = [fuzz(name, arguments.minutes / len(names), start) for name in names]
    return 0 if all(held) else 1


def run(name: str) -> None:
    sys.exit(main((name,)))
