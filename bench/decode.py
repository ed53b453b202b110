"""Times constrained decoding against what others use, on the same rows.

    python -m bench.decode [--rounds 31] [--what calls steps lists draws] [--calls OPTION ...]

First `bench.calls` in a short run: calls of real tools, cold and warm, on several vocabularies,
beside llguidance and xgrammar at their best; what follows `--calls` are its options. Then, on
GPT-2's vocabulary: a warm step of answers and calls beside one `logits.amax`, beside a forward pass
and right after it; what a new list of tools costs; what a draw costs. Interleaved in one process,
one thread, medians of ratios. A step is all of the constraint: fill or look up what is allowed,
apply it to float32 logits in place, advance by the token of the episode.
"""

from __future__ import annotations

import argparse
import platform
import random
import statistics
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import torch

from bench import calls
from bench.calls import Xgrammar
from mypt_infer.decode import Decoder
from mypt_infer.decode.decoder import machine
from mypt_infer.generate.llama import LlamaConfig, shapes
from mypt_infer.generate.sample import Sampling, draw
from tests.support.decoding import TOOLS, generated, prompt
from tests.support.tiny_models import random_model

VOCABULARY = 50304
Times = dict[str, list[float]]


def timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def interleaved(works: dict[str, Callable[[], Any]], rounds: int) -> Times:
    """Returns the seconds of every round; the first two rounds only warm up."""
    out: Times = {name: [] for name in works}
    for round_ in range(-2, rounds):
        for name, work in works.items():
            seconds = timed(work)
            if round_ >= 0:
                out[name].append(seconds)
    return out


def ratio(times: Times, mine: str, theirs: str) -> float:
    return statistics.median(a / b for a, b in zip(times[mine], times[theirs], strict=True))


def episodes(decoder: Decoder, count: int, length: int) -> list[list[int]]:
    """Returns what models might write: half of them answers, half calls.

    All are at least `length` tokens.
    """
    made, seed = [], 0
    words = decoder.dialect.tokenizer.encode(
        " the quick brown fox jumps over a lazy dog, and then some more happens"
    )
    special = decoder.dialect.tokenizer.special
    while len(made) < count:
        choose = random.Random(seed)
        seed += 1
        if len(made) % 2:
            made.append(
                [special["<myPT_assistant>"], *(choose.choice(words) for _ in range(length))]
            )
            continue
        body = (
            '{"name": "search", "query": "'
            + " ".join(choose.choice(["alpha", "beta", "gamma", "ünder"]) for _ in range(length))
            + '", "top_k": 5}'
        )
        made.append(
            [
                special["<myPT_assistant>"],
                special["<myPT_toolcall>"],
                *decoder.dialect.tokenizer.encode(body),
            ]
        )
    assert generated
    return made


class Ours:
    def __init__(self, decoder: Decoder, rows: list[list[int]]) -> None:
        self.decoder, self.rows = decoder, rows
        self.first = decoder.start(prompt("mypt"))
        self.reset()

    def reset(self) -> None:
        self.states, self.at = [self.first] * len(self.rows), 0

    def step(self, logits: torch.Tensor) -> None:
        states, at = self.states, self.at
        self.decoder.apply(logits.numpy(), states)
        for i, row in enumerate(self.rows):
            states[i] = self.decoder.next(states[i], row[at])
        self.at += 1


def steps(decoder: Decoder, batch: int, rounds: int) -> None:
    length = 40
    rows = (
        episodes(decoder, max(batch, 2), length)[:batch]
        if batch > 1
        else episodes(decoder, 1, length)
    )
    engines = {"ours": Ours(decoder, rows)}
    logits = torch.randn(batch, VOCABULARY)
    spare = logits.clone()
    samples: Times = {name: [] for name in ["read", *engines]}
    for round_ in range(-1, max(3, rounds // 4)):
        for engine in engines.values():
            engine.reset()
        for _ in range(length):
            # Each is timed on logits that have just been written, as a model's are.
            for name, engine in engines.items():
                spare.copy_(logits)
                seconds = timed(lambda engine=engine: engine.step(spare))  # type: ignore[misc]
                if round_ >= 0:
                    samples[name].append(seconds)
            spare.copy_(logits)
            seconds = timed(lambda: spare.amax(dim=-1))
            if round_ >= 0:
                samples["read"].append(seconds)
    print(
        f"batch {batch}: read {statistics.median(samples['read']) * 1e6:.0f} us, ours "
        f"{ratio(samples, 'ours', 'read'):.2f} of it",
    )
    shares(engines["ours"], statistics.median(samples["ours"]), batch, length, rounds)


# 7.1 M weights, most of them the embedding; 7.6 M outside of the embedding; 51 M.
SMALL = LlamaConfig(VOCABULARY, 128, 256, 4, 4, 4, tie_word_embeddings=True)
DEEP = LlamaConfig(VOCABULARY, 256, 896, 8, 4, 4, tie_word_embeddings=True)
LARGE = LlamaConfig(VOCABULARY, 512, 1408, 8, 8, 8, tie_word_embeddings=True)


def shares(ours: Ours, alone: float, batch: int, length: int, rounds: int) -> None:
    """Prints a step of constraint next to a forward pass.

    It is timed `alone` as above, in seconds, and right after the pass, on the logits that it made.
    After a pass nothing that the step needs is in the processor's cache.
    """
    small, deep, large = (
        int(sum(np.prod(s) for n, s in shapes(c).items() if c is not DEEP or "embed" not in n))
        for c in (SMALL, DEEP, LARGE)
    )
    readings = [
        (f"{small / 1e6:.1f} M weights, a token on a cache of 100", SMALL, 100, 1),
        ("on a cache of 1,000", SMALL, 1000, 1),
    ]
    if batch == 1:
        readings.append(("256 tokens without a cache", SMALL, 0, 256))
    readings.append(
        (
            f"{deep / 1e6:.1f} M weights outside of the embedding, a token on a cache of 100",
            DEEP,
            100,
            1,
        )
    )
    if batch == 1:
        readings.append((f"{large / 1e6:.0f} M weights, on a cache of 100", LARGE, 100, 1))
    found = []
    for name, config, cached, fresh in readings:
        model = random_model(config)
        cache = model.begin(batch, cached + fresh + 64)
        before, now = (torch.full((batch,), n, dtype=torch.int64) for n in (cached, fresh))
        if cached:
            model(torch.randint(0, 50000, (batch, cached)), before, cache)
        ids = torch.randint(0, 50000, (batch, fresh))
        times: Times = {"forward": [], "ours": []}
        ours.reset()
        with torch.inference_mode():
            for round_ in range(-5, rounds * (4 if batch == 1 else 1)):
                cache.filled = before
                begun = time.perf_counter()
                logits = model(ids, now, cache)
                between = time.perf_counter()
                ours.step(logits)
                ended = time.perf_counter()
                if ours.at == length:
                    ours.reset()
                if round_ >= 0:
                    times["forward"].append(between - begun)
                    times["ours"].append(ended - between)
        forward, step = (statistics.median(times[k]) for k in ("forward", "ours"))
        mean = sum(times["ours"]) / sum(times["forward"])
        behind = (
            f"{ratio(times, 'ours', 'forward'):.2%} right behind it ({step * 1e6:.0f} us of "
            f"{forward * 1e3:.1f} ms; mean {mean:.2%})"
        )
        found.append(f"    {name}: {alone / forward:.2%} by itself, {behind}")
    print("  share of a forward pass", *found, sep="\n")


def building(decoder: Decoder, rounds: int) -> None:
    """Prints what a tool list costs that was never seen."""
    count = [0]

    def fresh() -> tuple[dict[str, Any], ...]:
        count[0] += 1
        return tuple(
            {
                "name": f"{f.get('function', f)['name']}_{count[0]}",
                "parameters": f.get("function", f)["parameters"],
            }
            for f in TOOLS
        )  # type: ignore[attr-defined]

    tools = fresh()
    Decoder("mypt", tools)
    works: dict[str, Callable[[], Any]] = {
        "new": lambda: Decoder("mypt", fresh()),
        "known": lambda: Decoder("mypt", tools),
    }
    try:
        import llguidance

        from tests.support.guidance import tokenizer

        words = tokenizer("mypt")
        Decoder("mypt", tools, engine="llguidance")
        guided = lambda tools: Decoder("mypt", tools, engine="llguidance")  # noqa: E731
        works["new, our engine llguidance"] = lambda: guided(fresh())
        works["known, our engine llguidance"] = lambda: guided(tools)
        works["new, with the first allow set"] = lambda: first_set(guided(fresh()), [])
        works["new, with the first allow set of a call"] = lambda: first_set(
            guided(fresh()), [50261, 50267]
        )
        works["the same as tables"] = lambda: first_set(Decoder("mypt", fresh()), [50261, 50267])
        schemas = [f.get("function", f)["parameters"] for f in TOOLS]  # type: ignore[attr-defined]
        options = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
        works["llguidance, JSON schemas"] = lambda: [
            llguidance.LLMatcher(
                words, llguidance.LLMatcher.grammar_from_json_schema(s, defaults=options)
            )
            for s in schemas
        ]
        works["xgrammar, a JSON schema of all"] = Xgrammar(decoder.dialect, list(tools)).cold
    except ImportError:
        pass
    times = interleaved(works, max(5, rounds // 3))
    patterned(rounds)
    print(
        "a list of tools: "
        + "; ".join(
            f"{name} {statistics.median(found) * 1e3:.2f} ms" for name, found in times.items()
        )
    )


def first_set(decoder: Decoder, ids: list[int]) -> None:
    """Prints what a list of tools costs until something can be drawn after some ids."""
    decoder.allow(decoder.run(decoder.start(prompt("mypt")), ids))


def patterned(rounds: int) -> None:
    """Prints the engine "llguidance" inside calls, each allow set made anew.

    Its strings are bound by nothing, by a length or by a pattern.
    """
    try:
        import llguidance
    except ImportError:
        return
    assert llguidance
    works: dict[str, Callable[[], Any]] = {}
    for name, schema in (
        ("free", {}),
        ("length", {"minLength": 5, "maxLength": 40}),
        ("pattern", {"pattern": "^[a-z ]+$"}),
    ):
        parameters = {
            "type": "object",
            "properties": {"a": {"type": "string", **schema}},
            "required": ["a"],
        }
        made = Decoder("mypt", [{"name": "t", "parameters": parameters}], engine="llguidance")
        body = made.dialect.tokenizer.encode('{"name": "t", "a": "some words and more')
        state = made.run(made.start(prompt("mypt")), [50261, 50267, *body])
        works[name] = lambda made=made, state=state: made.engine._offer(machine(state))  # type: ignore[misc]
    times = interleaved(works, max(5, rounds // 3))
    print(
        "an allow set of the engine llguidance: "
        + ", ".join(
            f"{name} string {statistics.median(found) * 1e3:.1f} ms"
            for name, found in times.items()
        )
    )


def sampling(decoder: Decoder, rounds: int) -> None:
    """Prints sampling where few tokens are allowed, and where nearly all are.

    The yardstick is softmax and multinomial over everything.
    """
    logits = torch.randn(VOCABULARY)
    text = decoder.next(decoder.start(prompt("mypt")), 50261)
    narrow = decoder.run(text, [50267, *decoder.dialect.tokenizer.encode('{"name": "')])
    choice = Sampling(greedy_calls=False)
    some = Sampling(temperature=0.7, top_p=0.95, greedy_calls=False)
    works = {
        "all": lambda: torch.multinomial(torch.softmax(logits, 0), 1),
        "read": logits.amax,
        "narrow": lambda: draw(logits, narrow, decoder, choice, 0.5),
        "text": lambda: draw(logits, text, decoder, choice, 0.5),
        "narrow, not measured": lambda: draw(logits, narrow, decoder, choice, 0.5, measured=False),
        "greedy text, not measured": lambda: draw(
            logits, text, decoder, Sampling(temperature=0), 0.5, measured=False
        ),
        "text, top_p 0.95": lambda: draw(logits, text, decoder, some, 0.5),
    }
    times = interleaved(works, rounds * 3)
    print(
        f"sampling: softmax + multinomial over all ids {ratio(times, 'all', 'narrow'):.1f} times a "
        f"draw inside structure, {ratio(times, 'all', 'text'):.1f} times one in text (refused mass "
        "included); in reads of the logits: "
        + ", ".join(f"{n} {ratio(times, n, 'read'):.1f}" for n in works if n != "read")
    )
    assert machine(text) != machine(narrow)


PARTS = ["calls", "steps", "lists", "draws"]


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=31)
    options.add_argument("--what", nargs="+", choices=PARTS, default=PARTS, help="parts of it")
    options.add_argument("--calls", nargs=argparse.REMAINDER, default=[])
    chosen = options.parse_args()
    rounds = chosen.rounds
    torch.set_num_threads(1)
    decoder = Decoder("mypt", TOOLS)
    libraries = []
    for name in ("torch", "llguidance", "xgrammar"):
        try:
            libraries.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            libraries.append(f"{name} absent")
    print(f"Python {platform.python_version()}, {', '.join(libraries)}; one thread")
    if "calls" in chosen.what:
        calls.main(chosen.calls)
    if "steps" in chosen.what:
        for batch in (1, 64):
            steps(decoder, batch, rounds)
    if "lists" in chosen.what:
        building(decoder, rounds)
    if "draws" in chosen.what:
        sampling(decoder, rounds)


if __name__ == "__main__":
    main()
