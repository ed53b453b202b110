"""Runs many requests whose lists of tools differ, and measures the memory of the process.

    python -m bench.requests [--requests 10000] [--dialect mypt] [--most 60] [--seed 0]

A server makes a decoder for each list of tools that a client sends, for as long as it runs. Here
each request has one to twelve of 3,000 made-up tools, one in eight of which no table can hold, and
a generation of random allowed ids, at most `--most`. Every tenth of the requests, prints the
resident memory, the bytes that all memos hold, and how many decoders are alive. Ends with status 1
if memory grew by more than 64 MB in the last half, if a memo is larger than its room, or if
decoders of past requests are alive.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
import warnings
from typing import Any

from mypt_infer.decode import Decoder, Refused, SchemaWarning
from mypt_spec.memo import Memo
from tests.support.decoding import prompt

_GROWTH = 64  # MB
_WORDS = [
    "city",
    "day",
    "note",
    "title",
    "path",
    "query",
    "user",
    "limit",
    "kind",
    "state",
    "color",
    "size",
    "from",
    "until",
    "owner",
]


def made_up(number: int) -> dict[str, Any]:
    """Returns a tool; every eighth binds a string by a pattern."""
    chance = random.Random(number)
    kinds: list[dict[str, Any]] = [
        {"type": "string"},
        {"type": "integer"},
        {"type": "number"},
        {"type": "boolean"},
        {"enum": chance.sample(_WORDS, 4)},
        {"type": "array", "items": {"type": "string"}},
    ]
    keys = chance.sample(_WORDS, chance.randint(1, 6))
    properties = {key: chance.choice(kinds) for key in keys}
    if number % 8 == 0:
        properties[keys[0]] = {"type": "string", "pattern": f"^[a-f]{{{number % 5 + 1}}}-[0-9]+$"}
    parameters = {"type": "object", "properties": properties, "required": keys[:1]}
    return {"name": f"tool_{number}", "parameters": parameters}


def request(dialect: str, chance: random.Random, most: int) -> int:
    """Makes a decoder for some tools, and generates; returns the number of tokens."""
    chosen = chance.sample(range(3000), chance.randint(1, 12))
    decoder = Decoder(dialect, [made_up(n) for n in chosen], engine="auto")
    state, count = decoder.start(prompt(dialect), max_new_tokens=most), 0
    while not decoder.final(state):
        try:
            state = decoder.next(state, int(chance.choice(decoder.ids(state))))
        except Refused:
            continue
        count += 1
    return count


def resident() -> float:
    """Returns the resident memory of this process in MB."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def overfull() -> tuple[float, list[str]]:
    """Returns (held, over): MB that all memos say they hold, and those larger than their room."""
    memos = [found for found in gc.get_objects() if isinstance(found, Memo)]
    over = [f"{m.nbytes} bytes of {m._room}" for m in memos if m.nbytes > m._room]
    over += [f"{len(m.entries)} of {m._limit}" for m in memos if len(m.entries) > m._limit]
    return sum(m.nbytes for m in memos) / 2**20, over


def alive() -> int:
    """Returns how many decoders are alive."""
    gc.collect()
    return sum(isinstance(found, Decoder) for found in gc.get_objects())


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--requests", type=int, default=10_000)
    options.add_argument("--dialect", default="mypt")
    options.add_argument("--most", type=int, default=60)
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    warnings.simplefilter("ignore", SchemaWarning)
    chance, tokens, began = random.Random(chosen.seed), 0, time.process_time()
    print("| requests | tokens | MB | MB in memos | decoders | seconds of the processor |")
    print("| --- | --- | --- | --- | --- | --- |")
    half, faults = 0.0, list[str]()
    for n in range(1, chosen.requests + 1):
        tokens += request(chosen.dialect, chance, chosen.most)
        if n % max(1, chosen.requests // 10) == 0:
            left, (held, over), now = alive(), overfull(), resident()
            faults += over + ([f"{left} decoders are alive"] if left > 1 else [])
            half = now if n <= chosen.requests // 2 else half
            took = time.process_time() - began
            print(f"| {n} | {tokens} | {now:.0f} | {held:.0f} | {left} | {took:.0f} |", flush=True)
    if now - half > _GROWTH:
        faults.append(f"memory grew by {now - half:.0f} MB in the last half")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
