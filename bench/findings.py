"""What lines with findings cost, against the same lines without: every line of a file is broken in one of several ways.

    python -m bench.findings [--mb 5] [--rounds 5]

And a flood: lines with one and the same mistake, linted as a command, with what it prints and its peak memory.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mypt_spec
from bench.data import make
from bench.lint import DATA, timed
from mypt_spec.lint.check import Checker
from mypt_spec.lint.files import expand
from mypt_spec.lint.runner import run


def _role(record: dict[str, Any]) -> None:
    record["messages"][-1]["role"] = "robot"


def _key(record: dict[str, Any]) -> None:
    record["messages"][0]["note"] = "x"


def _tag(record: dict[str, Any]) -> None:
    record["messages"][0]["content"] += " </myPT_user>"


def _thought(record: dict[str, Any]) -> None:
    record["messages"][-1]["content"] = "<myPT_think>so</myPT_think>" + record["messages"][-1]["content"]


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


def broken(clean: Path, way: str) -> Path:
    """The file with every line broken in one way, or in all of them in turn (`all`)."""
    path = clean.with_suffix(f".{way.replace(' ', '-')}.jsonl")
    if not path.exists():
        ways = list(WAYS.values()) if way == "all" else [WAYS[way]]
        with clean.open("rb") as lines, path.open("w", encoding="utf-8") as out:
            for i, line in enumerate(lines):
                record = json.loads(line)
                ways[i % len(ways)](record)
                out.write(json.dumps(record, ensure_ascii=False) + "\n")
    return path


def lint(checker: Checker, path: Path, *, faulty: bool) -> int:
    """The lines read; insists that all are clean, or that none is."""
    count = 0
    for chunk in run(checker, expand([str(path)]), "record"):
        assert chunk.summary.faulty == (chunk.summary.units if faulty else 0)
        count += chunk.summary.units
    return count


def flood(lines: int) -> None:
    """One mistake, many times."""
    path = DATA / f"flood-{lines}.jsonl"
    if not path.exists():
        line = b'{"system": "S", "messages": [{"role": "usr", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]}\n'
        with path.open("wb") as out:
            for _ in range(lines // 1000):
                out.write(line * 1000)
    code = (
        "import sys\nfrom mypt_spec.lint.cli import main\nstatus = main(['--no-config', '-j', '1', sys.argv[1]])\n"
        "import resource; print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)\nsys.exit(status)"
    )
    command = [sys.executable, "-c", code, str(path)]
    seconds, done = timed_run(command)
    peak = int(re.findall(r"peak (\d+)", done.stderr)[0]) / 1024
    printed = len(done.stdout.splitlines()) + len(done.stderr.splitlines()) - 1
    print(f"{lines:,} equal mistakes: {printed} lines printed, {peak:.0f} MB at the peak, {seconds:.0f} s")


def timed_run(command: list[str]) -> tuple[float, subprocess.CompletedProcess[str]]:
    done: list[subprocess.CompletedProcess[str]] = []
    seconds, _ = timed(lambda: len(done.append(subprocess.run(command, capture_output=True, text=True, check=False)) or done))
    return seconds, done[0]


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--mb", type=int, default=5)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--flood", type=int, default=1_000_000)
    chosen = options.parse_args()
    clean = DATA / f"mixed-{chosen.mb}.jsonl"
    if not clean.exists():
        make(clean, chosen.mb << 20)
    checker = Checker(mypt_spec.dialect("mypt"), edits=False)
    files = {way: broken(clean, way) for way in ("all", *WAYS)}
    times: dict[str, list[float]] = {way: [] for way in ("", *files)}
    for _ in range(chosen.rounds):
        times[""].append(timed(lambda: lint(checker, clean, faulty=False))[0])
        for way, path in files.items():
            times[way].append(timed(lambda path=path: lint(checker, path, faulty=True))[0])  # type: ignore[misc]
    print(f"{clean.name}: every line broken, against the same lines clean (median of {chosen.rounds} ratios)")
    for way in files:
        ratio = statistics.median(b / a for a, b in zip(times[""], times[way], strict=True))
        print(f"{way:20} {statistics.median(times[way]) * 1e3:8.1f} ms  {ratio:6.1f} times as long")
    if chosen.flood:
        flood(chosen.flood)


if __name__ == "__main__":
    main()
