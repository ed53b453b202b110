"""Times `mypt-lint --data-set`, and measures its memory, on made-up records and on files.

    python -m bench.data_set [--records 100000] [--kind chats] [FILE ...]
    python -m bench.data_set --digests 10000000

Of the made-up records (`bench.records`), one in a hundred is one before it with a word more, and
one in a hundred is equal to one before it. Each run is a process of its own: processor time, peak
memory, findings by rule. A run of the same files without the option comes first. With --digests,
that many records are compared by made-up digests, with two answers each.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

import numpy as np

from bench.chats import tool
from bench.data import prose
from bench.records import KINDS, record
from mypt_lint.dataset.passages import SIGNATURE
from mypt_lint.dataset.records import Records


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


def compare(count: int) -> None:
    """Fills the arrays of records: one in 50 is a near duplicate; prints time and peak memory."""
    rng, records = np.random.default_rng(1), Records()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for first in range(0, count, 100_000):
        size = min(100_000, count - first)
        numbers = np.arange(first, first + size, dtype=np.uint64)
        records._digests.frombytes(rng.bytes(size * 40))
        answers = np.frombuffer(rng.bytes(size * 48), np.uint64).reshape(-1, 3).copy()
        answers[:, 2] = np.repeat(numbers, 2)
        records._answers.frombytes(answers.tobytes())
        records.flags += bytes(size)
        signed = rng.integers(1, 256, (size, SIGNATURE), np.uint8)
        signed[1::50] = signed[::50]
        records.sign(signed)
    begun = time.process_time()
    near = len(records.relations())
    seconds = time.process_time() - begun
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    each = memory * (1 << 20) / count
    print(f"{count} records: {seconds:.1f} s, {memory:.0f} MB, {each:.0f} bytes each, {near} alike")


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--records", type=int, default=100_000)
    options.add_argument("--kind", choices=KINDS, default="chats")
    options.add_argument("--digests", type=int)
    options.add_argument("files", nargs="*")
    chosen = options.parse_args()
    if chosen.digests:
        compare(chosen.digests)
        return
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
