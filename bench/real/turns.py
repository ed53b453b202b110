"""Lets a real model write turns under the mask at temperature 1, judged as in `bench.million`.

    python -m bench.real.turns --model RUN [--format harmony] [--seconds 300] [--rows 64]
        [--processes 4] [--device cuda] [--data DIR]

RUN has been trained on the format. Each turn answers a question of BFCL, with the tools of
`bench.million`, through `generate`, jumps included; one in three has a budget of 0 to 64 tokens
for each thought. Turn number N of a process is always that of the same question, budget and seed.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch

from bench.million import BUDGETS, FINE, Writer
from bench.real.functions import data, tests
from mypt_infer.decode import Decoder
from mypt_infer.generate.generate import generate
from mypt_infer.generate.llama import load
from mypt_model.folder import beside
from tests.support.build import user

ROOM, LONGEST = 96, 400


def written(chosen: argparse.Namespace, process: int) -> tuple[Counter[str], list[str]]:
    """Lets the model write turns for some seconds; returns what is counted, and some faults."""
    torch.set_num_threads(1)
    model = load(chosen.model).to(chosen.device)
    if chosen.device == "cuda":
        model.net.to(torch.bfloat16)
    vocabulary = beside(chosen.model, "tokenizer.json", "vocabulary.json")
    writer = Writer(chosen.format, vocabulary)
    asked = [t.question[-1]["content"] for t in tests(chosen.data or data())]
    asked = [text for text in asked if len(text) < LONGEST][:: 1 + process]
    budgets = {
        budget: Decoder(writer.dialect, writer.tools, max_think_tokens=budget)
        for budget in (None, *range(BUDGETS))
    }
    room, began, number = writer.least + ROOM, time.monotonic(), 0
    while time.monotonic() - began < chosen.seconds:
        numbers = range(number, number + chosen.rows)
        limits = [n // 3 % BUDGETS if n % 3 == 0 else None for n in numbers]
        prompts = [
            writer.prompter.prompt([user(asked[n % len(asked)])], writer.tools).ids for n in numbers
        ]
        answers = generate(
            model, prompts, decoder=[budgets[limit] for limit in limits], max_new_tokens=room,
            temperature=1.0, greedy_calls=False, seed=process * 1_000_000 + number,
            device=chosen.device,
        )  # fmt: skip
        for n, prompt, answer, limit in zip(numbers, prompts, answers, limits, strict=True):
            judged = n % chosen.judged == 0
            writer.check(n, prompt, answer.ids, limit, judged=judged, of_each=True)
        number += chosen.rows
    return writer.counts, writer.examples


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--format", default="harmony")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--judged", type=int, default=100, metavar="N", help="one turn in N")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--processes", type=int, default=1)
    chosen = parser.parse_args()
    with ProcessPoolExecutor(chosen.processes, get_context("spawn")) as pool:
        parts = list(pool.map(written, [chosen] * chosen.processes, range(chosen.processes)))
    counts = sum((part for part, _ in parts), Counter[str]())
    print(f"{chosen.format}: {dict(counts)}", *(e for _, some in parts for e in some), sep="\n    ")
    raise SystemExit(bool(counts.keys() - FINE))


if __name__ == "__main__":
    main()
