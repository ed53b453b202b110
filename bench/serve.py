"""Measures `mypt-serve`: tokens a second of several clients, time to the first token, the grammar.

Run: python -m bench.serve [--rounds N] [--tokens N] [--apart]. Needs the extra test. The model is
small and has random weights; what it says is legal, and of no meaning. Prompts have one system
prompt of 200 words and questions of 40; with --apart, they differ from the first word on. All ways
are taken in turn in one process, so the ratios hold where the times do not.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Sequence
from typing import Any

from mypt_infer.generate.llama import LlamaConfig
from mypt_infer.serve.service import Limits, Service
from tests.support.serving import FIND, NAME, Running, running
from tests.support.tiny_models import random_model

CLIENTS = (1, 8, 32)
SHAPE = {"hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4}


def served(tokens: int) -> Service:
    """Returns a service of a model of 20 million weights."""
    import mypt_spec

    dialect = mypt_spec.dialect("mypt")
    config = LlamaConfig(
        vocab_size=dialect.tokenizer.vocab_size,
        num_attention_heads=4,
        num_key_value_heads=4,
        tie_word_embeddings=True,
        **SHAPE,
    )
    limits = Limits(rows=32, queue=64, new_tokens=tokens)
    return Service(
        random_model(config), dialect, name=NAME, tools=["workspace.search"], limits=limits
    )


def ask(client: Any, seed: int, *, apart: bool) -> tuple[float, int]:
    """Asks for one streamed answer; returns (seconds to its first token, its tokens)."""
    system = f"{seed if apart else ''} " + "Be kind and brief. " * 50
    began, first, tokens = time.perf_counter(), 0.0, 0
    for chunk in client.chat.completions.create(
        model=NAME,
        messages=[
            {"role": "system", "content": system},
            {"role": "user", "content": f"{seed} " + "Hi " * 40},
        ],
        tools=[FIND],
        seed=seed,
        stream=True,
        stream_options={"include_usage": True},
    ):
        first = first or time.perf_counter() - began
        tokens = chunk.usage.completion_tokens if chunk.usage else tokens
    return first, tokens


def together(server: Running, clients: int, answers: int, *, apart: bool) -> tuple[float, float]:
    """Asks from several clients at once; returns (tokens a second, median first token)."""
    found: list[tuple[float, int]] = []

    def one(number: int) -> None:
        with server.client() as client:
            seeds = (number * 1000 + at for at in range(answers // clients))
            found.extend(ask(client, seed, apart=apart) for seed in seeds)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    return sum(n for _, n in found) / seconds, statistics.median(first for first, _ in found)


def main(words: Sequence[str] | None = None) -> None:
    """Prints a line for each number of clients: ratios to one request after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--apart", action="store_true")
    chosen = parser.parse_args(words)
    made = served(chosen.tokens)
    speed: dict[int, list[float]] = {n: [] for n in CLIENTS}
    first: dict[int, list[float]] = {n: [] for n in CLIENTS}
    shares: dict[int, list[float]] = {n: [] for n in CLIENTS}
    with running(made) as server:
        together(server, 1, 1, apart=chosen.apart)  # tools are compiled
        for _ in range(chosen.rounds):
            for clients in CLIENTS:
                counts = made.rows.counts
                before = counts.model, counts.constraint, counts.drawing
                answers = max(8, clients)
                rate, wait = together(server, clients, answers, apart=chosen.apart)
                model, constraint, drawing = (
                    now - then
                    for now, then in zip(
                        (counts.model, counts.constraint, counts.drawing), before, strict=True
                    )
                )
                speed[clients].append(rate)
                first[clients].append(wait)
                shares[clients].append(constraint / (model + constraint + drawing))
    print("clients  tokens/s to one after the other  first token to that of 1  grammar's share")
    for clients in CLIENTS:
        rate = statistics.median(speed[clients]) / statistics.median(speed[1])
        wait = statistics.median(first[clients]) / statistics.median(first[1])
        share = statistics.median(shares[clients])
        print(f"{clients:>7}  {rate:>29.2f} x  {wait:>22.2f} x  {share:>15.1%}")


if __name__ == "__main__":
    main()
