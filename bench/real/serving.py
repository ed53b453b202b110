"""Measures `mypt-serve` beside `transformers serve` and plain `generate` on a real model.

    python -m bench.real.serving --model DIR [--dialect chatml] [--clients 1 8 32] [--tokens 32]
        [--ways ours transformers batching generate] [--device cuda]

Each client streams one greedy answer to a question of its own. `transformers` answers one request
after the other, `batching` is its continuous batching, `generate` one padded batch of all
questions, without a server or a constraint. Prints a table in Markdown: the median and the longest
time to the first token, tokens a second of all clients together, and the processor time of the
server for each token. Each number of clients asks once before it is measured. Needs `openai`, and
for `transformers serve` its extra `serving`.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.real.job import need, server

TOPICS = (
    "the sea",
    "a lost key",
    "winter",
    "a train",
    "bees",
    "an old map",
    "rain",
    "a lighthouse",
)
Measured = tuple[list[float], int]
"""Seconds to the first token of each answer, and the tokens of all."""


def question(number: int) -> list[dict[str, str]]:
    topic = TOPICS[number % len(TOPICS)]
    return [{"role": "user", "content": f"{number}. Write a long story about {topic}."}]


def processor(pid: int) -> float:
    """Returns the seconds of processor time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask(client: Any, model: str, number: int, tokens: int) -> tuple[float, int]:
    """Streams an answer; returns the seconds to its first text, and its tokens."""
    since, first, count = time.perf_counter(), 0.0, 0
    for chunk in client.chat.completions.create(
        model=model, messages=question(number), max_tokens=tokens, temperature=0, stream=True,
        stream_options={"include_usage": True},
    ):  # fmt: skip
        if chunk.choices and chunk.choices[0].delta.content:
            first = first or time.perf_counter() - since
        count = chunk.usage.completion_tokens if chunk.usage else count
    return first, count


def clients(client: Any, model: str, count: int, tokens: int) -> Measured:
    answers: list[tuple[float, int]] = []

    def one(number: int) -> None:
        answers.append(ask(client, model, number, tokens))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    need(len(answers) == count, "an answer failed")
    return [first for first, _ in answers], sum(n for _, n in answers)


@contextmanager
def way(name: str, chosen: argparse.Namespace) -> Iterator[tuple[int, Any]]:
    """Yields the process that answers, and a function from a number of clients to `Measured`."""
    model, tokens = chosen.model.resolve(), chosen.tokens
    if name == "generate":
        from transformers import AutoModelForCausalLM, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
        net = AutoModelForCausalLM.from_pretrained(model, dtype="auto").to(chosen.device)

        def batch(count: int) -> Measured:
            texts = [tokenizer.apply_chat_template(question(n), tokenize=False,
                     add_generation_prompt=True) for n in range(count)]  # fmt: skip
            rows = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
            since, steps = time.perf_counter(), list[float]()
            rows = rows.to(chosen.device)

            def note(_: Any, scores: Any) -> Any:
                steps.append(time.perf_counter() - since)
                return scores

            out = net.generate(
                **rows, max_new_tokens=tokens, do_sample=False, logits_processor=[note]
            )
            size = rows["input_ids"].shape[1]
            return [steps[0]] * count, int((out[:, size:] != tokenizer.pad_token_id).sum())

        yield os.getpid(), batch
        return
    words = ["--model", str(model), "--dialect", chosen.dialect, "--rows", "32"]
    words += ["--device", chosen.device]
    python: Sequence[str] = ("-m", "mypt.main", "serve")
    if name != "ours":
        words = ["--continuous-batching"] if name == "batching" else []
        words = [str(model), "--device", chosen.device, "--dtype", "auto", *words]
        python = ("-c", "from transformers.cli.transformers import main; main()", "serve")
    with server(*words, python=python) as (child, client):
        served = model.name if name == "ours" else str(model)
        yield child.pid, lambda count: clients(client, served, count, tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--dialect", default="chatml")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--ways", nargs="+", default=["ours", "transformers", "generate"])
    chosen = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    print("| way | clients | first token, s: median, longest | tokens/s | processor ms a token |")
    print("| --- | --- | --- | --- | --- |")
    for name in chosen.ways:
        with way(name, chosen) as (pid, measure):
            for count in chosen.clients:
                measure(count)
                used, since = processor(pid), time.perf_counter()
                first, tokens = measure(count)
                seconds, used = time.perf_counter() - since, processor(pid) - used
                print(
                    f"| {name} | {count} | {statistics.median(first):.2f}, {max(first):.2f} | "
                    f"{tokens / seconds:.1f} | {1e3 * used / tokens:.1f} |", flush=True,
                )  # fmt: skip
    print(f"{resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10} MB at most in a server")


if __name__ == "__main__":
    main()
