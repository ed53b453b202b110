"""Times `mypt-prepare` end to end, against the tokenizer alone on the same text.

    python -m bench.prepare [--mb 50] [--rounds 5]

One run, interleaved, medians of ratios. The other sides only encode: no file is read or written,
nothing is checked. tiktoken makes no mask, and encodes tags as text; transformers makes ids and
mask by a chat template, to which a tag in a system prompt is a tag.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mypt_spec
from bench.data import make
from bench.lint import DATA, timed
from mypt_cli.jsonl.blocks import Source
from mypt_spec.tokenizer.batch import engine
from mypt_spec.tokenizer.tokenizer import gpt2
from mypt_spec.tokenizer.vocabulary import GPT2_PATTERN
from mypt_train.data.formats.options import Options
from mypt_train.scale.prepare import prepare

ORDINARY, BATCH = "encode_ordinary", "encode_ordinary_batch(num_threads=2)"


def once(path: Path, workers: int, length: int = 1 << 14) -> dict[str, Any]:
    """Prepares a file into a folder that is thrown away. Returns the manifest."""
    folder = Path(tempfile.mkdtemp(dir=DATA))
    try:
        made = prepare(
            [Source(str(path), size=path.stat().st_size)],
            folder / "out",
            Options(context_length=length, long="drop"),
            workers=workers,
        )
        assert made["lines"]["written"] == made["lines"]["lines"] or length < 1 << 14
        return made
    finally:
        shutil.rmtree(folder)


def ways(path: Path) -> dict[str, Callable[[], Any]]:
    """Returns the tools to compare, loaded when they are asked for.

    transformers only does a tenth of the records.
    """
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def ordinary() -> Callable[[], Any]:
        texts, base = texts_of(path), gpt2()
        return lambda: [base.encode_ordinary(text) for text in texts]

    def batch() -> Callable[[], Any]:
        texts, base = texts_of(path), gpt2()
        return lambda: base.encode_ordinary_batch(texts, num_threads=2)

    def theirs(size: int) -> Callable[[], Any]:
        from bench.template import TEMPLATE
        from tests.support.huggingface import encode, tokenizer

        tenth, tokens = records[: len(records) // 10], tokenizer()
        return lambda: [
            encode(tokens, tenth[i : i + size], template=TEMPLATE)
            for i in range(0, len(tenth), size)
        ]

    return {
        ORDINARY: ordinary,
        BATCH: batch,
        "transformers, one by one": lambda: theirs(1),
        "transformers, batches of 100": lambda: theirs(100),
        "prepare, 1 process": lambda: lambda: once(path, 1),
        "prepare, 2 processes": lambda: lambda: once(path, 2),
    }


def texts_of(path: Path) -> list[str]:
    """Returns the serialised records of a file; kept next to the file."""
    kept = path.with_suffix(".texts.json")
    if not kept.exists():
        d = mypt_spec.dialect("mypt")
        texts = [
            d.serialize(d.read(json.loads(line))[0])
            for line in path.read_text(encoding="utf-8").splitlines()
        ]  # type: ignore[arg-type]
        kept.write_text(json.dumps(texts, ensure_ascii=False), encoding="utf-8")
    found: list[str] = json.loads(kept.read_text(encoding="utf-8"))
    return found


def measure(name: str, path: Path, small: Path) -> float:
    """Returns the seconds of a way, in this process, after a run on a small file to warm up."""
    ways(small)[name]()()
    spent, _ = timed(ways(path)[name]())
    return spent * (10 if name.startswith("transformers") else 1)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--mb", type=int, default=50)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--way", help="measure one way in this process and print its seconds")
    chosen = options.parse_args()
    path, small = DATA / f"mixed-{chosen.mb}.jsonl", DATA / "mixed-1.jsonl"
    for file, size in ((path, chosen.mb), (small, 1)):
        if not file.exists():
            make(file, size << 20)
    if chosen.way:
        print(measure(chosen.way, path, small))
        return
    size = sum(len(text.encode()) for text in texts_of(path)) / 1e6
    theirs = importlib.util.find_spec("transformers") is not None
    names = [name for name in ways(small) if theirs or not name.startswith("transformers")]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(chosen.rounds):
        for name in (
            names
        ):  # each in a process of its own, so that none finds its memory as another left it
            run = [sys.executable, "-m", "bench.prepare", "--mb", str(chosen.mb), "--way", name]
            seconds[name].append(
                float(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
            )
    print(
        f"{path.name}, {size:.1f} MB of text; Python {platform.python_version()}, tiktoken "
        f"{version('tiktoken')}, prepare uses {engine(gpt2(), 50257, GPT2_PATTERN).library}",
        end="",
    )
    print(
        f", transformers {version('transformers')}, tokenizers {version('tokenizers')}"
        if theirs
        else ""
    )
    for name, spent in seconds.items():
        print(f"{name:38} {statistics.median(spent):6.2f} s")
    for mine in ("prepare, 1 process", "prepare, 2 processes"):
        for other in names[: names.index("prepare, 1 process")]:
            ratio = statistics.median(
                b / a for a, b in zip(seconds[mine], seconds[other], strict=True)
            )
            print(f"{mine}: {ratio:.2f} of the speed of {other}")
    for length in (2048, 4096):
        for name, split in once(path, 2, length)["splits"].items():
            if split["rows"]:
                bound = -(-split["episode_tokens"] // length)
                padding = 1 - split["episode_tokens"] / split["tokens"]
                print(
                    f"rows of {length}, {name}: {padding:.3%} padding, {split['rows'] / bound:.4f} "
                    "of the least number of rows"
                )


if __name__ == "__main__":
    main()
