"""Times linting of every dialect against the default one, on the same conversations.

    python -m bench.dialects [--mb 10] [--rounds 7]

These are those of bench.data, converted. Parts that a dialect has no place for are left out, so
files differ in size; speeds are per byte. One process, interleaved, medians.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
from pathlib import Path

import mypt_spec
from bench.data import make
from bench.lint import DATA, lint, timed
from mypt_convert import Converter
from mypt_lint.check.checker import Checker

BASE = "mypt"


def converted(path: Path, name: str) -> Path:
    """Returns the records of a file in another dialect."""
    out = path.with_name(f"{path.stem}-{name}.jsonl")
    if not out.exists():
        converter = Converter(BASE, name)
        lines = [
            converter.record(json.loads(line)).record
            for line in path.read_text(encoding="utf-8").splitlines()
        ]
        assert all(lines), name
        out.write_text(
            "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in lines), encoding="utf-8"
        )
    return out


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--mb", type=int, default=10)
    options.add_argument("--rounds", type=int, default=7)
    chosen = options.parse_args()
    path = DATA / f"mixed-{chosen.mb}.jsonl"
    if not path.exists():
        make(path, chosen.mb << 20)
    files = {name: path if name == BASE else converted(path, name) for name in mypt_spec.dialects()}
    checkers = {name: Checker(mypt_spec.dialect(name)) for name in files}
    speeds: dict[str, list[float]] = {name: [] for name in files}
    for round_ in range(-1, chosen.rounds):
        for name, file in files.items():
            seconds, _ = timed(lambda name=name, file=file: lint(checkers[name], file, 1))  # type: ignore[misc]
            if round_ >= 0:  # the first round only warms up
                speeds[name].append(file.stat().st_size / 1e6 / seconds)
    print(f"{path.name}, one process; Python {platform.python_version()}")
    for name, found in speeds.items():
        ratio = statistics.median(
            mine / base for mine, base in zip(found, speeds[BASE], strict=True)
        )
        print(
            f"{name:10} {files[name].stat().st_size / 1e6:6.1f} MB  "
            f"{statistics.median(found):7.1f} MB/s  {ratio:5.2f} of {BASE}'s speed"
        )


if __name__ == "__main__":
    main()
