"""`mypt-prepare` end to end, beside the tokenizer alone on the same text. One run, interleaved, medians of ratios.

    python -m bench.prepare [--mb 50] [--rounds 5]

The other side only encodes: no file is read or written, nothing is checked, there is no mask, and tags are encoded as text.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import tiktoken

import mypt_spec
from bench.data import make
from bench.lint import DATA, timed
from mypt_spec.lint.sources import Source
from mypt_spec.tokenizer import gpt2
from mypt_train.options import Options
from mypt_train.prepare import prepare


def once(path: Path, workers: int, length: int = 1 << 14) -> dict[str, Any]:
    """Prepare a file into a folder that is thrown away; the manifest."""
    folder = Path(tempfile.mkdtemp(dir=DATA))
    try:
        made = prepare([Source(str(path), size=path.stat().st_size)], folder / "out", Options(context_length=length, long="drop"), workers=workers)
        assert made["lines"]["written"] == made["lines"]["lines"] or length < 1 << 14
        return made
    finally:
        shutil.rmtree(folder)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--mb", type=int, default=50)
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    path = DATA / f"mixed-{chosen.mb}.jsonl"
    if not path.exists():
        make(path, chosen.mb << 20)
    d, base = mypt_spec.dialect("mypt"), gpt2()
    texts = [d.serialize(d.read(json.loads(line))[0]) for line in path.read_text(encoding="utf-8").splitlines()]  # type: ignore[arg-type]
    ways = {
        "encode_ordinary": lambda: [base.encode_ordinary(text) for text in texts],
        "encode_ordinary_batch(num_threads=2)": lambda: base.encode_ordinary_batch(texts, num_threads=2),
        "prepare, 1 process": lambda: once(path, 1),
        "prepare, 2 processes": lambda: once(path, 2),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for round_ in range(-1, chosen.rounds):
        for name, way in ways.items():
            spent, _ = timed(way)  # type: ignore[arg-type]
            if round_ >= 0:  # the first round only warms up
                seconds[name].append(spent)
    size = sum(len(text.encode()) for text in texts) / 1e6
    print(f"{path.name}, {size:.1f} MB of text; Python {platform.python_version()}, tiktoken {tiktoken.__version__}")
    for name, spent in seconds.items():
        print(f"{name:38} {statistics.median(spent):6.2f} s")
    for mine, other in (("prepare, 1 process", "encode_ordinary"), ("prepare, 2 processes", "encode_ordinary_batch(num_threads=2)")):
        ratio = statistics.median(b / a for a, b in zip(seconds[mine], seconds[other], strict=True))
        print(f"{mine} has {ratio:.2f} of the speed of {other}")
    for length in (2048, 4096):
        for name, split in once(path, 2, length)["splits"].items():
            if split["rows"]:
                bound = -(-split["episode_tokens"] // length)
                padding = 1 - split["episode_tokens"] / split["tokens"]
                print(f"rows of {length}, {name}: {padding:.3%} padding, {split['rows'] / bound:.4f} of the least number of rows")


if __name__ == "__main__":
    main()
