"""Times lines with findings against the same lines without.

    python -m bench.findings [--mb 20] [--rounds 5]

Every line of a file is broken in one of several ways. What is timed is the command with its
defaults (`mypt-lint FILE`), called in this process, its text written to memory: findings are made,
fixes looked for, places found, the first ones printed and all counted. "each in its own way" is the
worst case, in which no line teaches anything about another. The second column is processor time
alone, for machines that have other work.

And a flood: lines with one and the same mistake, linted as a command, with what it prints and its
peak memory.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import mypt_spec
from bench.data import make
from bench.lint import DATA, timed
from mypt.lint.cli import main as command
from mypt_cli.jsonl.paths import expand
from mypt_lint.check.checker import Checker
from mypt_lint.run.runner import run


def _role(record: dict[str, Any]) -> None:
    record["messages"][-1]["role"] = "robot"


def _key(record: dict[str, Any]) -> None:
    record["messages"][0]["note"] = "x"


def _tag(record: dict[str, Any]) -> None:
    record["messages"][0]["content"] += " </myPT_user>"


def _thought(record: dict[str, Any]) -> None:
    record["messages"][-1]["content"] = (
        "<myPT_think>so</myPT_think>" + record["messages"][-1]["content"]
    )


def _order(record: dict[str, Any]) -> None:
    record["messages"].insert(0, {"role": "user", "content": "Hi"})


def _blank(record: dict[str, Any]) -> None:
    record["messages"][-1]["content"] = "  "


def _string(record: dict[str, Any]) -> None:
    for message in record["messages"]:
        if "arguments" in message:
            message["arguments"] = json.dumps(message["arguments"])
            return
    _role(record)


WAYS: dict[str, Callable[[dict[str, Any]], None]] = {
    "unknown role": _role, "unknown key": _key, "tag in content": _tag, "typed thought": _thought,
    "out of order": _order, "blank answer": _blank, "arguments as string": _string,
}  # fmt: skip


ALL, OWN = "all", "each in its own way"


def broken(clean: Path, way: str) -> Path:
    """Returns the file with every line broken in one way, or in all in turn, or each otherwise."""
    path = clean.with_suffix(f".{way.replace(' ', '-')}.jsonl")
    if not path.exists():
        ways = [WAYS[way]] if way in WAYS else list(WAYS.values())
        with clean.open("rb") as lines, path.open("w", encoding="utf-8") as out:
            for i, line in enumerate(lines):
                record = json.loads(line)
                ways[i % len(ways)](record)
                if way == OWN:
                    record["messages"][0][f"note {i}"] = "x"
                out.write(json.dumps(record, ensure_ascii=False) + "\n")
    return path


def verified(path: Path, *, faulty: bool) -> None:
    """Insists that all lines are clean, or that none is."""
    checker = Checker(mypt_spec.dialect("mypt"), edits=False)
    for chunk in run(checker, expand([str(path)]), "record"):
        assert chunk.summary.faulty == (chunk.summary.units if faulty else 0)


def lint(path: Path) -> tuple[float, float]:
    """Returns the seconds of the command, and of the processor."""
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        began, busy = time.perf_counter(), time.process_time()
        assert command(["--no-config", "-j", "1", str(path)]) in (0, 1)
        return time.perf_counter() - began, time.process_time() - busy


def flood(lines: int) -> None:
    """Prints one mistake, many times."""
    path = DATA / f"flood-{lines}.jsonl"
    if not path.exists():
        line = (
            b'{"system": "S", "messages": [{"role": "usr", "content": "Hi"}, '
            b'{"role": "assistant", "content": "Yo"}]}\n'
        )
        with path.open("wb") as out:
            for _ in range(lines // 1000):
                out.write(line * 1000)
    code = (
        "import sys\nfrom mypt.lint.cli import main\nstatus = main(['--no-config', '-j', '1', "
        "sys.argv[1]])\n"
        "import resource; print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, "
        "file=sys.stderr)\nsys.exit(status)"
    )
    seconds, done = timed_run([sys.executable, "-c", code, str(path)])
    peak = int(re.findall(r"peak (\d+)", done.stderr)[0]) / 1024
    printed = len(done.stdout.splitlines()) + len(done.stderr.splitlines()) - 1
    print(
        f"{lines:,} equal mistakes: {printed} lines printed, {peak:.0f} MB at the peak, "
        f"{seconds:.0f} s"
    )


def timed_run(arguments: list[str]) -> tuple[float, subprocess.CompletedProcess[str]]:
    done: list[subprocess.CompletedProcess[str]] = []
    seconds, _ = timed(
        lambda: len(
            done.append(subprocess.run(arguments, capture_output=True, text=True, check=False))
            or done
        )
    )
    return seconds, done[0]


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--mb", type=int, default=20)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--flood", type=int, default=1_000_000)
    chosen = options.parse_args()
    clean = DATA / f"mixed-{chosen.mb}.jsonl"
    if not clean.exists():
        make(clean, chosen.mb << 20)
    files = {way: broken(clean, way) for way in (ALL, OWN, *WAYS)}
    times: dict[str, list[tuple[float, float]]] = {way: [] for way in ("", *files)}
    for path in (clean, *files.values()):
        verified(path, faulty=path is not clean)
    for _ in range(chosen.rounds):
        for way, path in {"": clean, **files}.items():
            times[way].append(lint(path))
    print(
        f"{clean.name}: every line broken, against the same lines clean (medians of "
        f"{chosen.rounds} rounds)"
    )
    for way in files:
        ratios = [
            statistics.median(b[i] / a[i] for a, b in zip(times[""], times[way], strict=True))
            for i in (0, 1)
        ]
        middle = statistics.median(seconds for seconds, _ in times[way])
        print(
            f"{way:22} {middle * 1e3:8.1f} ms  {ratios[0]:6.1f} times as long  {ratios[1]:6.1f} in "
            "processor time"
        )
    if chosen.flood:
        flood(chosen.flood)


if __name__ == "__main__":
    main()
