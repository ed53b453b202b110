"""Makes the hashes of public benchmarks that `mypt-lint --data-set` ships.

    python tools/benchmark_hashes.py FOLDER

FOLDER has the files that mypt_lint/dataset/benchmarks/benchmarks.toml names as sources, called
gsm8k.jsonl, humaneval.jsonl, ifeval.jsonl, math.jsonl, mbpp.jsonl, mmlu-stem.jsonl, mt-bench.jsonl.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import mypt_lint.dataset
from mypt_lint.dataset.fingerprints import plain
from mypt_lint.dataset.passages import sketches

KEYS = {
    "gsm8k": "question", "humaneval": "prompt", "ifeval": "prompt", "math": "problem",
    "mbpp": "text", "mmlu-stem": "question", "mt-bench": "turns",
}  # fmt: skip


def questions(name: str, folder: Path) -> list[str]:
    out: list[str] = []
    for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        record: dict[str, Any] = json.loads(line)
        if name == "mbpp" and not 11 <= record["task_id"] <= 510:
            continue  # no task of the test split
        value = record[KEYS[name]]
        out += value if isinstance(value, list) else [value]
    return out


def main(folder: Path) -> None:
    target = Path(mypt_lint.dataset.__file__).parent / "benchmarks"
    for name in KEYS:
        texts = questions(name, folder)
        sketch = sketches([plain(text) for text in texts])
        sketch = sketch[np.count_nonzero(sketch, axis=1) >= 3]
        np.save(target / f"{name}.npy", sketch)
        print(f"{name}: {len(sketch)} of {len(texts)} questions")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
