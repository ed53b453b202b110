"""Times linting of OpenAI's records, with texts as people write them, against parsing alone.

    python -m bench.records [--mb 16] [--only tools ...] [--plain-words] [--profile qwen3]
    python -m bench.records --usf-omega

Records are chats, calls of three tools that all records share, and calls of tools that no other
record has; they are linted without a format, in qwen3, and converted to qwen3 (`--records openai`).
With `--usf-omega`, they are records of that dialect, whose arguments are objects, linted in it.
All sides read the same file, interleaved in one process; medians of the ratios of processor time.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.chats import tool
from bench.data import prose, text
from bench.lint import lint, parse_only
from mypt_cli.jsonl.paths import expand
from mypt_lint.check.checker import Checker
from mypt_lint.run.plan import Plan
from mypt_lint.run.resolve import group_sources
from mypt_lint.settings.config import Config

KINDS = ("chats", "calls", "tools")
SETTINGS: dict[str, dict[str, Any]] = {
    "no dialect": {},
    "qwen3": {"dialect": "qwen3"},
    "qwen3, openai": {"dialect": "qwen3", "records": "openai"},
}
USF_OMEGA: dict[str, dict[str, Any]] = {"usf-omega": {"dialect": "usf-omega"}}
Words = Callable[[random.Random, int], str]


def plain(rng: random.Random, size: int) -> str:
    return f"{text(rng, 'en', size)}."


def record(rng: random.Random, kind: str, words: Words, shared: list[Any]) -> dict[str, Any]:
    """Returns a record of one to four turns, with calls whose arguments are JSON text."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": words(rng, 60)}]
    made = {each["function"]["name"]: (each, call) for each, call in (tool(rng) for _ in range(3))}
    tools = shared if kind == "calls" else [*made.values()]
    for turn in range(rng.randint(1, 4)):
        messages.append({"role": "user", "content": words(rng, 100)})
        if kind != "chats":
            chosen, arguments = rng.choice(tools)
            name = chosen["function"]["name"]
            function = {"name": name, "arguments": json.dumps(arguments(), ensure_ascii=False)}
            call = {"id": f"call_{turn}", "type": "function", "function": function}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            result = {"role": "tool", "tool_call_id": f"call_{turn}", "content": words(rng, 200)}
            messages.append(result)
        messages.append({"role": "assistant", "content": words(rng, 400)})
    declared = {} if kind == "chats" else {"tools": [each for each, _ in tools]}
    return {"messages": messages} | declared


def write(path: Path, size: int, kind: str, words: Words) -> Path:
    """Writes about `size` bytes of records; the same arguments make the same bytes."""
    rng = random.Random(7)
    shared = [tool(rng) for _ in range(3)]
    with path.open("wb") as out:
        while out.tell() < size:
            made = json.dumps(record(rng, kind, words, shared), ensure_ascii=False)
            out.write(made.encode() + b"\n")
    return path


def checker(path: Path, chosen: dict[str, Any]) -> Checker:
    """Returns the checker that the command has for a file. Warns about nothing but errors."""
    plan = Plan(dict.fromkeys(("select", "ignore")) | chosen, Config())
    (group,) = group_sources(plan, expand([str(path)]), baseline=None, say=lambda _: None)
    return group.checker


def of_usf_omega(path: Path) -> Path:
    """Returns the records of a file as those of USF Omega."""
    out = path.with_suffix(".usf")
    with path.open("rb") as lines, out.open("w", encoding="utf-8") as usf:
        for line in lines:
            made = json.loads(line)
            for message in made["messages"]:
                if "tool_calls" in message:
                    del message["content"]
                for call in message.get("tool_calls", ()):
                    call["function"]["arguments"] = json.loads(call["function"]["arguments"])
            usf.write(json.dumps(made, ensure_ascii=False) + "\n")
    return out


def compare(
    path: Path, kind: str, rounds: int, settings: dict[str, dict[str, Any]] = SETTINGS
) -> None:
    """Prints a row for each side: speed, and its ratio to parsing alone."""
    sides: dict[str, Callable[[], int]] = {"orjson.loads": partial(parse_only, path)}
    for name, chosen in settings.items():
        sides[name] = partial(lint, checker(path, chosen), path, 1)
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            began = time.process_time()
            side()
            times[name].append(time.process_time() - began)
    size, base = path.stat().st_size / 1e6, times["orjson.loads"]
    for name, took in times.items():
        ratio = statistics.median(b / s for b, s in zip(base, took, strict=True))
        speed = size / statistics.median(took)
        print(f"{kind:6} {name:14} {speed:6.1f} MB/s  {ratio:6.4f} of parsing alone", flush=True)


def profile(path: Path, chosen: dict[str, Any]) -> None:
    """Prints where the time of linting a file goes."""
    side, profiler = partial(lint, checker(path, chosen), path, 1), cProfile.Profile()
    profiler.runcall(side)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--mb", type=int, default=16)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--only", nargs="+", choices=KINDS, default=KINDS)
    options.add_argument("--plain-words", action="store_true", help="texts of plain words alone")
    options.add_argument("--usf-omega", action="store_true", help="records of this dialect")
    options.add_argument("--profile", choices=SETTINGS, help="print where the time goes")
    chosen = options.parse_args()
    words = plain if chosen.plain_words else prose
    with tempfile.TemporaryDirectory() as folder:
        for kind in chosen.only:
            path = write(Path(folder) / f"{kind}.jsonl", chosen.mb << 20, kind, words)
            if chosen.profile:
                profile(path, SETTINGS[chosen.profile])
            else:
                usf = of_usf_omega(path) if chosen.usf_omega else path
                compare(usf, kind, chosen.rounds, USF_OMEGA if chosen.usf_omega else SETTINGS)


if __name__ == "__main__":
    main()
