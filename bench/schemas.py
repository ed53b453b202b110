"""Measures how many real schemas and lists of tools are read, how rightly, and how fast.

    python -m bench.schemas --schemas FOLDER [--count 300] [--tools FILE ...] [--seed 0]

FOLDER holds files of MaskBench (`maskbench/data` of github.com/guidance-ai/jsonschemabench): a
schema, and values that fit it or do not. FILE is a JSON list of lists of tools, what an MCP server
answers to `tools/list`, or a file of BFCL (github.com/ShishirPatil/gorilla), a JSON object a line.
None is part of this repository.

Each schema is one tool's arguments in dialect praxis, whose calls hold arguments as they are, also
with `"additionalProperties": true` where an object leaves it out ("open"), and an answer
(`Response(schema=...)`) in dialect mypt; a schema whose values are no objects is left out. Values
are written canonically, keys in the order of the schema, and walked token by token: the allow set,
then the step. llguidance has the same schema and the same values, in the same run. Times are the
processor's. Prints tables in Markdown, and of each way the values that it does not judge as the
files do.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
import warnings
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import llguidance
import llguidance.numpy as kernels

import mypt_spec
from mypt_infer.decode import Decoder, Response, SchemaFault, SchemaWarning
from mypt_infer.decode.compile.grammar_graph import call_ends
from mypt_infer.decode.llguidance.grammar import words
from mypt_infer.decode.llguidance.response import GUIDANCE, SPACING
from mypt_spec.bodies.json_body import call_text
from mypt_spec.bodies.type_names import mapped
from tests.support.decoding import prompt

DIALECT = mypt_spec.dialect("praxis")
MOST_TOKENS = 2000
# Seconds: few allow sets should take the first, none the last.
LONG = (0.003, 0.010, 0.050)


class Walk:
    """How far a value was taken, and the seconds of each allow set and of each step.

    They are in arrays: in lists, the collector of garbage would look at each of a million numbers
    while others are timed.
    """

    def __init__(self) -> None:
        self.masks, self.steps = array("d"), array("d")
        self.count = 0


class Tally:
    """What one engine did: counts, and seconds of compiling, of allow sets and of steps."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.compiled: list[float] = []
        self.walk = Walk()
        self.reasons: Counter[str] = Counter()
        self.misjudged: list[str] = []

    def row(self, name: str) -> str:
        c = self.counts
        return (
            f"| {name} | {c['read']} of {c['schemas']} | {c['valid taken']} of {c['valid']} | "
            f"{c['invalid refused']} of {c['invalid']} | {_times(self.compiled, 1e3)} | "
            f"{_times(self.walk.masks, 1e6)} | {_long(self.walk.masks)} | "
            f"{_times(self.walk.steps, 1e6)} | {_long(self.walk.steps)} |"
        )


class Pauses:
    """The full collections of garbage in this process from now on, with the seconds of each."""

    def __init__(self) -> None:
        self.seconds, self._began = array("d"), 0.0
        gc.callbacks.append(self._told)

    def _told(self, phase: str, about: dict[str, int]) -> None:
        if about["generation"] == 2:
            if phase == "stop":
                self.seconds.append(time.process_time() - self._began)
            self._began = time.process_time()

    def told(self) -> str:
        """Returns a line that says how many they were, and how long one takes now."""
        count, longest = len(self.seconds), max(self.seconds, default=0.0)
        gc.collect()
        return (
            f"{count} full collections of garbage, {longest * 1e3:.1f} ms at most; one takes "
            f"{self.seconds[-1] * 1e3:.1f} ms now, of {len(gc.get_objects()):,} objects"
        )


def _times(times: Iterable[float], unit: float) -> str:
    """Returns "p50 / p99 / max" in a unit of so many a second."""
    found = sorted(times)
    at = [found[len(found) // 2], found[int(len(found) * 0.99)], found[-1]] if found else []
    return (
        " / ".join(f"{t * unit:,.0f}" if t * unit >= 10 else f"{t * unit:.1f}" for t in at) or "-"
    )


def _long(times: Sequence[float]) -> str:
    """Returns how many are longer than each of LONG."""
    over = " / ".join(str(sum(t > most for t in times)) for most in LONG)
    return f"{over} of {len(times):,}"


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
    """One schema in the decoder, as the arguments of a tool."""

    def __init__(self, schema: Any, **options: Any) -> None:
        self.of = Decoder(DIALECT, [{"name": "t", "parameters": schema}], **options)
        ids = [*self.of.ids_of(PROMPT), *DIALECT.tokenizer.encode(OPENED)]
        self.first, self.closing = self.of.start(ids), CLOSING

    def walk(self, text: str, walk: Walk) -> bool:
        state = self.first
        for token in self.of.dialect.tokenizer.encode(text):
            began = time.process_time()
            found = self.of.allow(state)
            walk.masks.append(time.process_time() - began)
            began = time.process_time()
            if not found.has(token) or not self.of.takes(state, token):
                return False
            state = self.of.next(state, token)
            walk.steps.append(time.process_time() - began)
            walk.count += 1
        found = self.of.allow(state)
        return any(found.has(i) for i in self.closing)


def opened(schema: Any) -> Any:
    """Returns a schema whose objects say that more members fit, where they leave that out."""

    def one(part: dict[str, Any], _: str) -> dict[str, Any]:
        is_open = "object" in part.get("type", ()) and not {"enum", "const"} & part.keys()
        return {"additionalProperties": True} | part if is_open else part

    return mapped({**schema, "type": "object"}, one)


class Answer(Ours):
    """One schema in the decoder, as that of the answer."""

    def __init__(self, schema: Any) -> None:
        self.of = Decoder("mypt", response=Response(schema=schema))
        special = self.of.dialect.tokenizer.special
        begun = self.of.start(prompt("mypt"))
        self.first = self.of.next(begun, special["<myPT_assistant>"])
        self.closing = [special["</myPT_assistant>"]]


class Theirs:
    """One schema in llguidance alone."""

    def __init__(self, schema: Any) -> None:
        text = '%llguidance {"no_forcing": true}\nstart: %json ' + json.dumps(
            {**schema, GUIDANCE: SPACING}
        )
        self.first = llguidance.LLMatcher(
            words(DIALECT, END), llguidance.grammar_from("lark", text), log_level=0
        )
        if self.first.is_error():
            raise SchemaFault("t", "", self.first.get_error().splitlines()[0])

    def walk(self, text: str, walk: Walk) -> bool:
        here = self.first.deep_copy()
        bits = kernels.allocate_token_bitmask(1, DIALECT.tokenizer.vocab_size)
        for token in DIALECT.tokenizer.encode(text):
            began = time.process_time()
            kernels.fill_next_token_bitmask(here, bits)
            walk.masks.append(time.process_time() - began)
            began = time.process_time()
            if not int(bits[0, token >> 5]) >> (token & 31) & 1 or not here.consume_token(token):
                return False
            walk.steps.append(time.process_time() - began)
            walk.count += 1
        return bool(here.is_accepting())


def _begin() -> tuple[Any, str, list[int], int]:
    """Returns a prompt, the opening of a call of tool `t`, ids that may begin its end, and END."""
    opener = next(t for t in DIALECT.table.openers.values() if t.body == call_ends(DIALECT)[0])
    closer = DIALECT.table.closers[opener.opens].spell()
    whole = call_text("t", {}, DIALECT.table.literals, "function")
    tails = ["}" + closer[:n] for n in range(len(closer))]
    ids = {DIALECT.tokenizer.encode(t)[0] for t in tails}
    opened = opener.spell() + whole.rpartition("{}")[0]
    return prompt("praxis"), opened, sorted(ids), call_ends(DIALECT)[1]


PROMPT, OPENED, CLOSING, END = _begin()


def measure(
    tally: Tally, make: Callable[[], Any], tests: list[dict[str, Any]], schema: Any, name: str = ""
) -> None:
    """Compiles one schema and walks through its values."""
    tally.counts["schemas"] += 1
    began = time.process_time()
    try:
        made = make()
    except (SchemaFault, ValueError) as fault:
        tally.reasons[str(fault)[:120]] += 1
        return
    tally.compiled.append(time.process_time() - began)
    tally.counts["read"] += 1
    for test in tests:
        text = json.dumps(ordered(test["data"], schema), ensure_ascii=False)
        tokens = DIALECT.tokenizer.encode(text)
        if len(tokens) > MOST_TOKENS:
            continue
        tally.walk.count = 0
        taken, valid = made.walk(text, tally.walk), bool(test["valid"])
        kind, right = ("valid", "valid taken") if valid else ("invalid", "invalid refused")
        tally.counts[kind] += 1
        tally.counts[right] += taken == valid
        if taken != valid:
            at = DIALECT.tokenizer.decode(tokens[: tally.walk.count + 1])[-60:]
            tally.misjudged.append(f"{name}: {kind} at {at!r}")


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
        yield json.loads(line).get("function", [])


def tools(paths: list[str]) -> None:
    """Prints how many lists of tools are read."""
    print("\n| dialect, engine | lists read | compile ms p50 / p99 / max |\n| --- | --- | --- |")
    known = [found for path in paths for found in lists(path) if found]
    for dialect, engine in (("mypt", "table"), ("mypt", "auto"), ("praxis", "auto")):
        tally = Tally()
        for found in known:
            measure(tally, partial(Decoder, dialect, found, engine=engine), [], {})
        c = tally.counts
        share = 100 * c["read"] / max(1, c["schemas"])
        read = f"{c['read']} of {c['schemas']} ({share:.1f} %)"
        print(f"| {dialect}, {engine} | {read} | {_times(tally.compiled, 1e3)} |")
        for reason, count in tally.reasons.most_common(6):
            print(f"    {count}: {reason}")


def schemas(folder: str, count: int, seed: int) -> None:
    """Prints how the schemas of a folder are read, in each way."""
    files = sorted(Path(folder).glob("*.json"))
    random.Random(seed).shuffle(files)
    ways: dict[str, Callable[[Any], Any]] = {
        "tool, tables": partial(Ours, engine="table"),
        "tool, auto": partial(Ours, engine="auto"),
        "tool, auto, open": lambda schema: Ours(opened(schema), engine="auto"),
        "answer": Answer,
        "llguidance": Theirs,
    }
    tallies, pauses = {name: Tally() for name in ways}, Pauses()
    for path in files[:count]:
        case = json.loads(path.read_text(encoding="utf-8"))
        schema, tests = case["schema"], case.get("tests", [])
        if not isinstance(schema, dict) or schema.get("type", "object") != "object":
            continue
        tests = [t for t in tests if isinstance(t["data"], dict)]
        for name, make in ways.items():
            measure(tallies[name], partial(make, schema), tests, schema, path.name)
    print("p50 / p99 / max\n")
    print(
        "| way | read | valid taken | invalid refused | compile ms | allow set us "
        "| over 3/10/50 ms | step us | over 3/10/50 ms |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, tally in tallies.items():
        print(tally.row(name))
    print(f"\n{pauses.told()}")
    for name, tally in tallies.items():
        if not name.endswith("tables"):
            print(f"\n{name}")
            print(*(f"    {line}" for line in tally.misjudged[:40]), sep="\n")
            for reason, times in tally.reasons.most_common(8):
                print(f"    not read, {times}: {reason}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--schemas")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--tools", nargs="*", default=[])
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", SchemaWarning)
    if chosen.schemas:
        schemas(chosen.schemas, chosen.count, chosen.seed)
    if chosen.tools:
        tools(chosen.tools)


if __name__ == "__main__":
    main()
