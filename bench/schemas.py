"""Measures how many real schemas and lists of tools are read, how rightly, and how fast.

    python -m bench.schemas --schemas FOLDER [--count 300] [--tools FILE ...] [--seed 0]

FOLDER holds files of MaskBench (`maskbench/data` of github.com/guidance-ai/jsonschemabench): a
schema, and values that fit it or do not. FILE is a JSON list of lists of tools, what an MCP server
answers to `tools/list`, or a file of BFCL (github.com/ShishirPatil/gorilla), a JSON object a line.
None is part of this repository.

Each schema is one tool's arguments in dialect praxis, whose calls hold arguments as they are; a
schema whose values are no objects is left out. Values are written canonically, keys in the order of
the schema, and walked token by token: the allow set, then the step. llguidance has the same schema
and the same tokens, in the same run. Prints tables in Markdown; on a busy machine, only medians say
something of time.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import llguidance
import llguidance.numpy as kernels

import mypt_spec
from mypt_infer.decode import Decoder, SchemaFault, SchemaWarning
from mypt_infer.decode.compile.grammar_graph import call_ends
from mypt_infer.decode.llguidance.grammar import words
from mypt_spec.bodies.json_body import call_text

DIALECT = mypt_spec.dialect("praxis")
SPACING = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
MOST_TOKENS = 2000
# BFCL's names of types.
NAMES = {"dict": "object", "float": "number", "tuple": "array", "list": "array", "any": None,
         "String": "string", "Boolean": "boolean", "HashMap": "object", "ArrayList": "array",
         "Array": "array", "long": "integer", "double": "number", "char": "string",
         "Bigint": "integer", "byte": "integer", "short": "integer"}  # fmt: skip


class Tally:
    """What one engine did: counts, and seconds of compiling and of steps."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.compiled: list[float] = []
        self.steps: list[float] = []
        self.reasons: Counter[str] = Counter()

    def row(self, name: str) -> str:
        c = self.counts
        steps, compiled = sorted(self.steps), sorted(self.compiled)
        return (
            f"| {name} | {c['read']} of {c['schemas']} | {c['valid taken']} of {c['valid']} | "
            f"{c['invalid refused']} of {c['invalid']} | {_ms(compiled)} | {_ms(steps)} |"
        )


def _ms(times: list[float]) -> str:
    if not times:
        return "-"
    p99 = times[int(len(times) * 0.99)]
    return f"{statistics.median(times) * 1e3:.2f} / {p99 * 1e3:.1f} / {times[-1] * 1e3:.0f}"


def ordered(value: Any, schema: Any) -> Any:
    """Returns a value with its keys in the order of the schema, where it names them."""
    if isinstance(value, list):
        items = schema.get("items", {}) if isinstance(schema, dict) else {}
        return [ordered(v, items) for v in value]
    if not isinstance(value, dict):
        return value
    known = schema.get("properties", {}) if isinstance(schema, dict) else {}
    keys = [k for k in known if k in value] + [k for k in value if k not in known]
    return {k: ordered(value[k], known.get(k, {})) for k in keys}


class Ours:
    """One schema in the decoder."""

    def __init__(self, schema: Any, engine: str) -> None:
        self.of = Decoder(DIALECT, [{"name": "t", "parameters": schema}], engine=engine)
        ids = [*self.of.ids_of(PROMPT), *DIALECT.tokenizer.encode(OPENED)]
        self.first = self.of.start(ids)

    def walk(self, tokens: list[int], times: list[float]) -> bool:
        state = self.first
        for token in [*tokens, -1]:
            began = time.perf_counter()
            found = self.of.allow(state)
            if token < 0:
                return any(found.has(i) for i in CLOSING)
            if not found.has(token) or not self.of.takes(state, token):
                return False
            state = self.of.next(state, token)
            times.append(time.perf_counter() - began)
        return False


class Theirs:
    """One schema in llguidance alone."""

    def __init__(self, schema: Any) -> None:
        text = '%llguidance {"no_forcing": true}\nstart: %json ' + json.dumps(
            {**schema, "x-guidance": SPACING}
        )
        self.first = llguidance.LLMatcher(
            words(DIALECT, END), llguidance.grammar_from("lark", text), log_level=0
        )
        if self.first.is_error():
            raise SchemaFault("t", "", self.first.get_error().splitlines()[0])

    def walk(self, tokens: list[int], times: list[float]) -> bool:
        here = self.first.deep_copy()
        bits = kernels.allocate_token_bitmask(1, DIALECT.tokenizer.vocab_size)
        for token in tokens:
            began = time.perf_counter()
            kernels.fill_next_token_bitmask(here, bits)
            if not int(bits[0, token >> 5]) >> (token & 31) & 1 or not here.consume_token(token):
                return False
            times.append(time.perf_counter() - began)
        return bool(here.is_accepting())


def _begin() -> tuple[Any, str, list[int], int]:
    """Returns a prompt, the opening of a call of tool `t`, ids that may begin its end, and END."""
    from tests.support.decoding import prompt

    opener = next(t for t in DIALECT.table.openers.values() if t.body == call_ends(DIALECT)[0])
    closer = DIALECT.table.closers[opener.opens].spell()
    whole = call_text("t", {}, DIALECT.table.literals, "function")
    tails = ["}" + closer[:n] for n in range(len(closer))]
    ids = {DIALECT.tokenizer.encode(t)[0] for t in tails}
    opened = opener.spell() + whole.rpartition("{}")[0]
    return prompt("praxis"), opened, sorted(ids), call_ends(DIALECT)[1]


PROMPT, OPENED, CLOSING, END = _begin()


def measure(
    tally: Tally, make: Callable[[], Any], tests: list[dict[str, Any]], schema: Any
) -> None:
    """Compiles one schema and walks through its values."""
    tally.counts["schemas"] += 1
    began = time.perf_counter()
    try:
        made = make()
    except (SchemaFault, ValueError) as fault:
        tally.reasons[str(fault)[:120]] += 1
        return
    tally.compiled.append(time.perf_counter() - began)
    tally.counts["read"] += 1
    for test in tests:
        text = json.dumps(ordered(test["data"], schema), ensure_ascii=False)
        tokens = DIALECT.tokenizer.encode(text)
        if len(tokens) > MOST_TOKENS:
            continue
        taken = made.walk(tokens, tally.steps)
        kind = "valid" if test["valid"] else "invalid"
        tally.counts[kind] += 1
        tally.counts["valid taken" if test["valid"] else "invalid refused"] += (
            taken if test["valid"] else not taken
        )


def lists(path: str) -> Iterator[list[dict[str, Any]]]:
    """Yields the lists of tools of a file."""
    text = Path(path).read_text(encoding="utf-8")
    if text.startswith("["):
        yield from json.loads(text)
        return
    with suppress(json.JSONDecodeError):  # else an object a line
        whole = json.loads(text)
        if "tools" in whole:
            yield whole["tools"]
            return
    for line in text.splitlines():
        yield [_named(tool) for tool in json.loads(line).get("function", [])]


def _named(part: Any) -> Any:
    """Returns a schema of BFCL with JSON Schema's names of types."""
    if isinstance(part, list):
        return [_named(p) for p in part]
    if not isinstance(part, dict):
        return part
    out = {k: _named(v) for k, v in part.items()}
    kind = part.get("type")
    if isinstance(kind, str) and NAMES.get(kind, kind) is None:
        del out["type"]
    elif isinstance(kind, str):
        out["type"] = NAMES.get(kind, kind)
    return out


def tools(paths: list[str]) -> None:
    """Prints how many lists of tools are read."""
    print("\n| dialect, engine | lists read | compile ms p50 / p99 / max |\n| --- | --- | --- |")
    known = [found for path in paths for found in lists(path) if found]
    for dialect, engine in (("mypt", "table"), ("mypt", "auto"), ("praxis", "auto")):
        tally = Tally()
        for found in known:
            measure(tally, partial(Decoder, dialect, found, engine=engine), [], {})
        c, times = tally.counts, sorted(tally.compiled)
        share = 100 * c["read"] / max(1, c["schemas"])
        read = f"{c['read']} of {c['schemas']} ({share:.1f} %)"
        print(f"| {dialect}, {engine} | {read} | {_ms(times)} |")
        for reason, count in tally.reasons.most_common(6):
            print(f"    {count}: {reason}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--schemas")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--tools", nargs="*", default=[])
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", SchemaWarning)
    if chosen.schemas:
        files = sorted(Path(chosen.schemas).glob("*.json"))
        random.Random(chosen.seed).shuffle(files)
        tallies = {name: Tally() for name in ("ours, tables", "ours, auto", "llguidance")}
        for path in files[: chosen.count]:
            case = json.loads(path.read_text(encoding="utf-8"))
            schema, tests = case["schema"], case.get("tests", [])
            if not isinstance(schema, dict) or schema.get("type", "object") != "object":
                continue
            tests = [t for t in tests if isinstance(t["data"], dict)]
            makes: dict[str, Callable[[], Any]] = {
                "ours, tables": partial(Ours, schema, "table"),
                "ours, auto": partial(Ours, schema, "auto"),
                "llguidance": partial(Theirs, schema),
            }
            for name, make in makes.items():
                measure(tallies[name], make, tests, schema)
        print("| engine | read | valid taken | invalid refused | compile ms | step ms |")
        print("| --- | --- | --- | --- | --- | --- |")
        for name, tally in tallies.items():
            print(tally.row(name))
        for reason, count in tallies["ours, auto"].reasons.most_common(12):
            print(f"    {count}: {reason}")
    if chosen.tools:
        tools(chosen.tools)


if __name__ == "__main__":
    main()
