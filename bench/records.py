"""Times linting of records of other tools against parsing alone: all sides read the same records.

    python -m bench.records [--mb 5] [--rounds 5]

Interleaved in one process; medians of the ratios.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import mypt_spec
from bench.data import text
from bench.lint import lint, parse_only, timed
from mypt_lint.check.checker import Checker

TOOL = {
    "type": "function",
    "function": {
        "name": "find",
        "description": "d",
        "parameters": {
            "type": "object",
            "properties": {"q": {"type": "string"}, "top_k": {"type": "integer"}},
        },
    },
}


def openai(rng: random.Random) -> dict[str, Any]:
    """Returns a record of one to four turns; every third one calls a tool."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You help."}]
    calls = rng.random() < 1 / 3
    for turn in range(rng.randint(1, 4)):
        messages.append({"role": "user", "content": text(rng, "en", 100)})
        if calls:
            arguments = json.dumps({"q": text(rng, "en", 20)})
            call = {"id": f"c{turn}", "type": "function"}
            call |= {"function": {"name": "find", "arguments": arguments}}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            result = {"role": "tool", "tool_call_id": f"c{turn}", "content": text(rng, "en", 200)}
            messages.append(result)
        messages.append({"role": "assistant", "content": text(rng, "en", 400)})
    return {"messages": messages} | ({"tools": [TOOL]} if calls else {})


def sharegpt(rng: random.Random) -> dict[str, Any]:
    said = [
        {"from": "gpt" if i % 2 else "human", "value": text(rng, "en", 400 if i % 2 else 100)}
        for i in range(2 * rng.randint(1, 4))
    ]
    return {"conversations": said}


def each(checker: Checker, path: Path) -> int:
    """Asks the checker about each line, with nothing remembered."""
    lines = path.read_bytes().splitlines()
    return sum(not checker.line(raw, row=i, filename="") for i, raw in enumerate(lines, 1))


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--mb", type=int, default=5)
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    d = mypt_spec.dialect("usf-omega")
    with tempfile.TemporaryDirectory() as folder:
        for shape, make in (("openai", openai), ("sharegpt", sharegpt)):
            rng, path = random.Random(7), Path(folder) / f"{shape}.jsonl"
            with path.open("w") as out:
                while out.tell() < chosen.mb << 20:
                    out.write(json.dumps(make(rng)) + "\n")
            plain = Checker(d, shape=shape, formatless=True)
            sides: dict[str, Callable[[], int]] = {
                "orjson.loads": partial(parse_only, path),
                "without a format": partial(lint, plain, path, 1),
                "each line checked": partial(each, plain, path),
                "as usf-omega": partial(lint, Checker(d, shape=shape), path, 1),
            }
            compare(shape, sides, chosen.rounds)


def compare(shape: str, sides: dict[str, Callable[[], int]], rounds: int) -> None:
    times: dict[str, list[float]] = {name: [] for name in sides}
    lines = 0
    for _ in range(rounds):
        for name, side in sides.items():
            seconds, lines = timed(side)
            times[name].append(seconds)
    base = times["orjson.loads"]
    for name, took in times.items():
        ratio = statistics.median(b / s for b, s in zip(base, took, strict=True))
        print(f"{shape:9} {name:17} {lines} lines  {ratio:6.4f} of parse-only speed")


if __name__ == "__main__":
    main()
