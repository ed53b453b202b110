"""Times `mypt-lint --data-set`, and measures its memory, on made-up records and on files.

    python -m bench.data_set [--records 100000] [--kind chats] [FILE ...]

Of the made-up records (`bench.records`), one in a hundred is one before it with a word more, and
one in a hundred is equal to one before it. Each run is a process of its own: processor time, peak
memory, findings by rule. A run of the same files without the option comes first.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import deque
from pathlib import Path

from bench.chats import tool
from bench.data import prose
from bench.records import KINDS, record


def write(path: Path, count: int, kind: str) -> None:
    rng, recent = random.Random(7), deque([""], 1000)
    shared = [tool(rng) for _ in range(3)]
    with path.open("w") as out:
        for i in range(count):
            made = record(rng, kind, prose, shared)
            if i % 100 == 50:
                made = json.loads(rng.choice(recent))
                made["messages"][1]["content"] += " indeed"
            line = rng.choice(recent) if i % 100 == 99 else json.dumps(made)
            out.write(line + "\n")
            recent.append(line)
            if not recent[0]:
                recent.popleft()


def measured(words: list[str]) -> tuple[float, float, str]:
    """Returns processor seconds, peak memory in MB, and what a run of the linter counts."""
    command = [sys.executable, "-m", "mypt_lint", "--no-config", "-j", "1", "--statistics", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    counts = process.stdout.read().decode()
    usage = os.wait4(process.pid, 0)[2]
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, counts


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--records", type=int, default=100_000)
    options.add_argument("--kind", choices=KINDS, default="chats")
    options.add_argument("files", nargs="*")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = chosen.files
        if not files:
            path = Path(folder) / "records.jsonl"
            write(path, chosen.records, chosen.kind)
            files = [str(path)]
        size = sum(Path(file).stat().st_size for file in files) / 1e6
        for words in ([], ["--data-set"]):
            seconds, memory, counts = measured([*words, *files])
            print(f"{size:.0f} MB {' '.join(words):10} {seconds:.1f} s, {memory:.0f} MB")
        print(counts)


if __name__ == "__main__":
    main()
