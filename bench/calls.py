"""Times calls of real tools, cold and warm, beside llguidance and xgrammar as they are used.

    python -m bench.calls [--tools FILE ...] [--counts 10 128] [--batches 1 64]
        [--vocabulary NAME ...] [--engines ours llguidance xgrammar] [--rounds 3] [--steps 24]
        [--answers]

FILE is a JSON list of lists of tools, what an MCP server answers to `tools/list`, or a file of
BFCL: `BFCL_*_multiple.json` in `berkeley-function-call-leaderboard/bfcl_eval/data` of
github.com/ShishirPatil/gorilla. None is part of this repository: without FILE, those that the
variable BENCH_TOOLS names are read, else tools made up here. NAME is `gpt2`; `128k`, `qwen` or
`o200k`, where a package is installed that holds it (bench/vocabularies.py); or a file, such as
`models/llama3/tokenizer.model` of github.com/meta-llama/llama-models. What is left out is said.
The table of bench/RESULTS.md has counts of 10 and 128, batches of 1 8 64 256, 2 rounds of 16 steps.

Each row writes a call of a tool of the list; with `--answers`, every second row writes an answer,
which only ours can. A step is all of the constraint: fill, apply to float32 logits in place,
advance by the row's token. *Cold*: the list is compiled, and nothing was asked of it; *warm*: the
same rows once more, in the same decoder and by fresh copies of the same matchers. A column "a, of
b" has the seconds of a, divided by those of b; a read is one `logits.amax`.

llguidance has its own slices, a matcher a row, and fills a batch in one call on one thread, as ours
runs; xgrammar has its cache, its own kernel and its batched calls. Both get the same tools: the
first as the grammar with which our engine asks it, the second as a JSON Schema of all calls.
Seconds are those of the processor, interleaved step by step; ratios are medians of rounds.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

import mypt_spec
from bench.schemas import lists
from bench.vocabularies import NAMES, Missing, vocabulary
from mypt_infer.decode import Decoder, SchemaFault, SchemaWarning
from mypt_infer.decode.base.tools import declare
from mypt_infer.decode.compile.grammar_graph import call_ends
from mypt_infer.decode.llguidance.grammar import schema_of
from mypt_spec import Dialect
from mypt_spec.bodies.json_body import call_text
from mypt_spec.bodies.type_names import standard_types
from tests.support.decoding import prompt

WORDS = ["New York", "alpha", "beta gamma", "2024-05-01", "the weather in Oslo", "ünder"]
PLAIN = {"integer": 42, "number": 3.5, "boolean": True, "null": None}


def made_up(count: int) -> list[Any]:
    """Returns tools of the size that real ones have, each with names of its own."""
    kinds = [
        {"type": "string"},
        {"type": "integer", "minimum": 1},
        {"enum": ["asc", "desc", "none"]},
        {"type": "boolean"},
        {"type": "array", "items": {"type": "string"}},
    ]
    return [
        {
            "name": f"{WORDS[i % 3].split()[0].lower()}.tool_{i * 7919 % 1009}",
            "parameters": {
                "properties": {f"key_{(i * 31 + j) % 97}": kinds[(i + j) % 5] for j in range(4)},
                "required": [f"key_{i * 31 % 97}"],
            },
        }
        for i in range(count)
    ]


def readable(paths: list[str], count: int) -> list[Any]:
    """Returns the first tools that tables hold, by different names; made-up ones without a file.

    Says which files are not there, and how many tools are left out.
    """
    found: dict[str, Any] = {}
    there = [path for path in paths if Path(path).is_file()]
    for path in paths:
        if path not in there:
            print(f"left out: {path} is not there")
    if not there:
        print("left out: real lists of tools (--tools or BENCH_TOOLS); these are made up")
        return made_up(count)
    seen, left = set[str](), 0
    for tool in (tool for path in there for listed in lists(path) for tool in listed):
        if len(found) == count:
            break
        if "parameters" in tool:  # BFCL names types as Python does; other engines take none of it
            tool = tool | {"parameters": standard_types(tool["parameters"])[0]}
        if tool["name"] not in seen:
            seen.add(tool["name"])
            try:
                Decoder("mypt", [tool])
            except SchemaFault:
                left += 1
                continue
            found[tool["name"]] = tool
    print(f"{len(found)} tools of {', '.join(there)}; {left} left out, which no table holds")
    return list(found.values())


def value(schema: Any, choose: random.Random) -> Any:
    """Returns a value that a model might write."""
    if "enum" in schema:
        return choose.choice(schema["enum"])
    kind = schema.get("type", "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "array":
        return [value(schema.get("items", {}), choose) for _ in range(2)]
    if kind == "object":
        return {k: value(part, choose) for k, part in schema.get("properties", {}).items()}
    return " ".join(choose.choices(WORDS, k=3)) if kind == "string" else PLAIN[kind]


class Ours:
    """Our decoder, masking logits in place."""

    def __init__(self, dialect: Dialect, tools: list[Any]) -> None:
        self.dialect, self.tools = dialect, tools

    def cold(self) -> None:
        self.decoder = Decoder(self.dialect, self.tools)

    def begin(self, rows: list[list[int]]) -> None:
        special, run = self.dialect.tokenizer.special, self.decoder.run
        first = self.decoder.start(prompt("mypt"), max_new_tokens=4000)
        text = run(first, [special["<myPT_assistant>"]])
        call = run(text, [special["<myPT_toolcall>"]])
        end = call_ends(self.dialect)[1]
        self.states = [call if row[-1] == end else text for row in rows]

    def step(self, logits: torch.Tensor, live: list[int], ids: list[int]) -> None:
        states, step = self.states, self.decoder.next
        self.decoder.apply(logits.numpy(), [states[row] for row in live])
        for row, token in zip(live, ids, strict=True):
            states[row] = step(states[row], token)


class Guidance:
    """llguidance."""

    def __init__(self, dialect: Dialect, tools: list[Any]) -> None:
        import llguidance
        import llguidance.torch as kernels

        from mypt_infer.decode.llguidance.grammar import matcher

        kind, end = call_ends(dialect)
        self.make = lambda: matcher(dialect, end, kind, declare(tools))
        self.kernels, self.size = kernels, dialect.tokenizer.vocab_size
        self.executor = llguidance.LLExecutor(num_threads=1)

    def cold(self) -> None:
        self.first = self.make()

    def begin(self, rows: list[list[int]]) -> None:
        self.matchers = [self.first.deep_copy() for _ in rows]
        self.mask = self.kernels.allocate_token_bitmask(len(rows), self.size)

    def step(self, logits: torch.Tensor, live: list[int], ids: list[int]) -> None:
        mask = self.mask[: len(live)]
        if len(live) == 1:
            self.kernels.fill_next_token_bitmask(self.matchers[live[0]], mask, 0)
        else:
            pairs = [(self.matchers[row], at) for at, row in enumerate(live)]
            self.kernels.fill_next_token_bitmask_par(self.executor, pairs, mask)
        self.kernels.apply_token_bitmask_inplace(logits, mask)
        for row, token in zip(live, ids, strict=True):
            assert self.matchers[row].consume_token(token)


def tokenizer_info(dialect: Dialect, end: int) -> Any:
    """Returns xgrammar's description of a vocabulary; `end` is the id that ends a text."""
    import xgrammar

    known = dialect.tokenizer
    words = [
        known.decode_bytes([i]) if i in known.ordinary else b"" for i in range(known.vocab_size)
    ]
    return xgrammar.TokenizerInfo(words, vocab_size=known.vocab_size, stop_token_ids=[end])


class Xgrammar:
    """xgrammar."""

    def __init__(self, dialect: Dialect, tools: list[Any]) -> None:
        import xgrammar

        self.end = call_ends(dialect)[1]
        self.lib, self.size = xgrammar, dialect.tokenizer.vocab_size
        self.compiler = xgrammar.GrammarCompiler(tokenizer_info(dialect, self.end), max_threads=1)
        self.batch = xgrammar.BatchGrammarMatcher(max_threads=1)
        self.schema = {"anyOf": [schema_of(tool, "call") for tool in declare(tools)]}

    def cold(self) -> None:
        self.compiler.clear_cache()
        self.compiled = self.compiler.compile_json_schema(
            self.schema, any_whitespace=False, separators=(", ", ": ")
        )

    def begin(self, rows: list[list[int]]) -> None:
        self.matchers = [self.lib.GrammarMatcher(self.compiled) for _ in rows]
        self.mask = self.lib.allocate_token_bitmask(len(rows), self.size)

    def step(self, logits: torch.Tensor, live: list[int], ids: list[int]) -> None:
        mask, matchers = self.mask[: len(live)], [self.matchers[row] for row in live]
        if len(live) == 1:
            matchers[0].fill_next_token_bitmask(mask, 0)
        else:
            self.batch.batch_fill_next_token_bitmask(matchers, mask)
        self.lib.apply_token_bitmask_inplace(logits, mask)
        assert all(self.batch.batch_accept_token(matchers, ids))


ENGINES = {"ours": Ours, "llguidance": Guidance, "xgrammar": Xgrammar}


def rows_of(
    dialect: Dialect, tools: list[Any], batch: int, *, answers: bool = False
) -> list[list[int]]:
    """Returns calls as tokens, up to the tag that closes them; with `answers`, half are texts."""
    choose, specs = random.Random(0), declare(tools)
    out = []
    for at in range(batch):
        if answers and at % 2:
            text = " ".join(choose.choices(WORDS, k=30))
            out.append(dialect.tokenizer.encode(text))
            continue
        tool = specs[at % len(specs)]
        arguments = {k: value(v, choose) for k, v in tool.schema.get("properties", {}).items()}
        text = call_text(tool.name, arguments, dialect.table.literals, "call")
        out.append([*dialect.tokenizer.encode(text), call_ends(dialect)[1]])
    return out


def rounds(
    engines: dict[str, Any], rows: list[list[int]], logits: torch.Tensor, chosen: Any
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yields ("cold" or "warm", seconds of the processor by engine and of a read) a round."""
    spare, clock = logits.clone(), time.process_time
    for _ in range(chosen.rounds):
        for engine in engines.values():
            engine.cold()
        for phase in ("cold", "warm"):
            spent = dict.fromkeys([*engines, "read"], 0.0)
            for engine in engines.values():
                engine.begin(rows)
            for at in range(chosen.steps):
                live = [i for i, row in enumerate(rows) if at < len(row)]
                if not live:
                    break
                ids, part = [rows[i][at] for i in live], spare[: len(live)]
                for name, engine in engines.items():
                    part.copy_(logits[: len(live)])  # just written, as a model's are
                    began = clock()
                    engine.step(part, live, ids)
                    spent[name] += clock() - began
                part.copy_(logits[: len(live)])
                began = clock()
                part.amax(dim=-1)
                spent["read"] += clock() - began
            yield phase, spent


def measure(dialect: Dialect, tools: list[Any], batch: int, chosen: Any) -> None:
    """Prints a row: a list of tools, a batch, our engine, and others beside it."""
    rows = rows_of(dialect, tools, batch, answers=chosen.answers)
    logits = torch.randn(batch, dialect.tokenizer.vocab_size)
    others = [name for name in chosen.engines if name != "ours"]
    engines: dict[str, Any] = {n: ENGINES[n](dialect, tools) for n in ("ours", *others)}
    found: dict[str, list[dict[str, float]]] = {"cold": [], "warm": []}
    for phase, spent in rounds(engines, rows, logits, chosen):
        found[phase].append(spent)
    cells = [f"{dialect.tokenizer.vocab_size:,}", str(len(tools)), str(batch)]
    for spents in found.values():
        kept = spents[min(1, len(spents) - 1) :]  # the first round loads code
        cells.append(f"{statistics.median(s['ours'] / s['read'] for s in kept):.2f}")
        cells += [f"{statistics.median(s[o] / s['ours'] for s in kept):.2f}" for o in others]
    print("| " + " | ".join(cells) + " |", flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tools", nargs="*", default=os.environ.get("BENCH_TOOLS", "").split())
    parser.add_argument("--counts", type=int, nargs="+", default=[10, 128])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--vocabulary", nargs="*", default=NAMES, help="names or files")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--answers", action="store_true", help="half of the rows are texts")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=24)
    chosen = parser.parse_args(arguments)
    if chosen.answers:
        chosen.engines = ["ours"]
    warnings.simplefilter("ignore", SchemaWarning)
    torch.set_num_threads(1)
    tools = readable(chosen.tools, max(chosen.counts))
    missing = [n for n in chosen.engines if n != "ours" and find_spec(n) is None]
    for name in missing:
        print(f"left out: {name}, which is not installed")
    chosen.engines = [name for name in chosen.engines if name not in missing]
    others = [f"{name}, of ours" for name in chosen.engines if name != "ours"]
    heads = ["vocabulary", "tools", "batch"]
    for phase in ("cold", "warm"):
        heads += [f"{phase}: ours, of a read", *(f"{phase}: {other}" for other in others)]
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}", flush=True)
    for name in chosen.vocabulary:
        with vocabulary(name) as path:
            if isinstance(path, Missing):
                print(f"left out: the vocabulary {name}: {path.reason}")
                continue
            dialect = mypt_spec.dialect("mypt", vocabulary=path)
            for count in dict.fromkeys(min(count, len(tools)) for count in chosen.counts):
                for batch in chosen.batches:
                    measure(dialect, tools[:count], batch, chosen)


if __name__ == "__main__":
    main()
