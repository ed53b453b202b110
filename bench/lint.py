"""Times linting against parsing alone: both sides read the same file.

    python -m bench.lint [--mb 50] [--rounds 9]

Interleaved in one process; medians of the ratios.
"""

from __future__ import annotations

import argparse
import platform
import resource
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import mypt_spec
from bench.data import make
from mypt_cli.jsonl.paths import expand
from mypt_lint.check.checker import Checker
from mypt_lint.run.parallel import check_sources

DATA = Path(__file__).parent / "data"


def parse_only(path: Path) -> int:
    """Reads lines, `orjson.loads` each: the yardstick."""
    import orjson  # tests use the data of this benchmark, and do without it

    count = 0
    with path.open("rb") as lines:
        for line in lines:
            orjson.loads(line)
            count += 1
    return count


def lint(checker: Checker, path: Path, jobs: int) -> int:
    """Lints by all default rules. Returns the lines read, and insists that they are clean."""
    count = 0
    for chunk in check_sources(checker, expand([str(path)]), "record", jobs=jobs):
        assert not chunk.findings, chunk.findings[0]
        count += chunk.summary.units
    return count


def timed(action: Callable[[], int]) -> tuple[float, int]:
    began = time.perf_counter()
    count = action()
    return time.perf_counter() - began, count


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--mb", type=int, default=50)
    options.add_argument("--rounds", type=int, default=9)
    chosen = options.parse_args()
    path = DATA / f"mixed-{chosen.mb}.jsonl"
    if not path.exists():
        make(path, chosen.mb << 20)
    size = path.stat().st_size / 1e6
    checker = Checker(mypt_spec.dialect("mypt"))
    sides = {
        "orjson.loads": lambda: parse_only(path),
        "mypt-lint -j1": lambda: lint(checker, path, 1),
        "mypt-lint -j2": lambda: lint(checker, path, 2),
    }
    times: dict[str, list[float]] = {name: [] for name in sides}
    for side in sides.values():
        side()
    for _ in range(chosen.rounds):
        counts = set()
        for name, side in sides.items():
            seconds, count = timed(side)
            times[name].append(seconds)
            counts.add(count)
        assert len(counts) == 1, counts
    print(
        f"{path.name}: {size:.1f} MB, {counts.pop()} lines; Python {platform.python_version()}, "
        f"orjson {version('orjson')}, msgspec {version('msgspec')}"
    )
    base = times["orjson.loads"]
    for name, seconds in times.items():
        ratio = statistics.median(b / s for b, s in zip(base, seconds, strict=True))
        middle = statistics.median(seconds)
        print(
            f"{name:14} {middle * 1e3:8.1f} ms  {size / middle:7.1f} MB/s  {ratio:5.2f} of "
            "parse-only speed"
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"peak memory of this process: {peak:.0f} MB; of its largest worker: "
        f"{resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MB"
    )


if __name__ == "__main__":
    main()
