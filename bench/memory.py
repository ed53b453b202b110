"""Measures the peak memory of `mypt-prepare` on a small and a large input.

    python -m bench.memory [--mb 20 200] [--random]

It is that of the process that leads, and of the largest worker. With `--random`, no two words of
the input are alike: what remembers words grows most on these.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from bench.data import make, random_record, record
from bench.lint import DATA

RUN = """
import json, resource, sys, tempfile
from pathlib import Path
from bench.prepare import once
once(Path(sys.argv[1]), int(sys.argv[2]), 2048)
sides = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
print(json.dumps([resource.getrusage(who).ru_maxrss / 1024 for who in sides]))
"""


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--mb", type=int, nargs="+", default=[20, 200])
    options.add_argument("--random", action="store_true", help="texts of random words")
    chosen = options.parse_args()
    kind, one = ("random", random_record) if chosen.random else ("mixed", record)
    for size in chosen.mb:
        path = DATA / f"{kind}-{size}.jsonl"
        if not path.exists():
            make(path, size << 20, one=one)
        for workers in (1, 2):
            done = subprocess.run(
                [sys.executable, "-c", RUN, str(path), str(workers)],
                check=True,
                capture_output=True,
                text=True,
            )
            own, child = json.loads(done.stdout)
            print(
                f"{path.name}, {workers} workers: {own:.0f} MB"
                + (f", largest worker {child:.0f} MB" if workers > 1 else ""),
                flush=True,
            )


if __name__ == "__main__":
    main()
