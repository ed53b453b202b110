"""Counts the right calls of a real model: free, under our mask, and under those of two libraries.

    python -m bench.real.right_calls --model DIR [--data DIR] [--rows 240] [--part all|test]
        [--write calls|json] [--ways free ours jumps llguidance xgrammar] [--device cuda]

Questions, tools and ground truths are BFCL's (`bench/real/functions.py`), the same share of each
category. All ways are greedy, begin with the same ids, and end where a JSON object is complete;
llguidance and xgrammar get the same schema of all calls, with canonical spacing.

- `calls`: the tools are declared as the dialect declares them, and the answer begins inside a call.
  For a model that has been trained on calls.
- `json`: the tools stand in the system prompt, which asks for one JSON object. For a model that has
  never seen the tags.

`ours` asks the model wherever more than one id is allowed, `jumps` takes the encoder's ids where
one text can follow. Prints a table in Markdown: right calls by category, calls of a tool that was
declared, the mean refused mass. `--part test` leaves out what `bench.real.job` trains on.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

import mypt_spec
from bench.calls import tokenizer_info
from bench.real.functions import CATEGORIES, Test, data, tests
from mypt_infer.decode import Decoder, Response, SchemaWarning
from mypt_infer.decode.base.tools import ToolSpec, declare
from mypt_infer.decode.compile.grammar_graph import call_ends, kinds_of
from mypt_infer.decode.compile.nfa import CALLING
from mypt_infer.decode.llguidance.grammar import words
from mypt_infer.decode.llguidance.response import SPACING
from mypt_infer.generate.generate import generate
from mypt_infer.generate.llama import Llama, load
from mypt_infer.generate.loop import run
from mypt_model.folder import beside
from mypt_spec import Dialect

WAYS = ("free", "ours", "jumps", "llguidance", "xgrammar")
LONGEST, NEW_TOKENS = 2000, 256
ASK = """You may call these functions:
{functions}
Answer the question with one function call, as a JSON object and nothing else:
{{"name": "NAME OF THE FUNCTION", "arguments": {{"ARGUMENT": VALUE}}}}"""


class Case(NamedTuple):
    """A test, the ids that every way begins with, its tools and the JSON Schema of their calls."""

    test: Test
    prompt: list[int]
    tools: list[dict[str, Any]]
    schema: dict[str, Any]


def is_heldout(number: int) -> bool:
    """Returns whether a test is for measuring: every third one. The others are for training."""
    return number % 3 == 0


def cases(dialect: Dialect, folder: Path, count: int, part: str, write: str) -> list[Case]:
    """Returns about `count` cases, the same share of each category; says what is left out."""
    found = list(tests(folder))
    chosen = [t for i, t in enumerate(found) if part == "all" or is_heldout(i)]
    left, out = Counter[str](), list[Case]()
    step = max(1, len(chosen) // count)
    for test in chosen[::step]:
        try:
            if write == "calls":
                Decoder(dialect, test.tools, engine="auto")
            schema = {"anyOf": [_call_schema(tool) for tool in declare(test.tools)]}
        except ValueError as error:
            left[str(error)[:60]] += 1
            continue
        if not test.is_right(test.call):
            left["a ground truth that is not right itself"] += 1
            continue
        prompt = _prompt(dialect, test, write)
        if len(prompt) > LONGEST:
            left[f"more than {LONGEST} tokens"] += 1
            continue
        out.append(Case(test, prompt, test.tools, schema))
    for reason, number in left.items():
        print(f"left out: {number}: {reason}")
    return sorted(out, key=lambda case: len(case.prompt))


def _call_schema(tool: ToolSpec) -> dict[str, Any]:
    """Returns the schema of a call of a tool, without arguments that the tool does not name."""
    arguments = {"type": "object", "additionalProperties": False, **tool.schema}
    properties = {"name": {"const": tool.name}, "arguments": arguments}
    required = ["name", "arguments"]
    return {"type": "object", "properties": properties, "required": required,
            "additionalProperties": False}  # fmt: skip


def _prompt(dialect: Dialect, test: Test, write: str) -> list[int]:
    record: dict[str, Any] = {"messages": test.question}
    if write == "calls":
        record["tools"] = [{"type": "function", "function": tool} for tool in test.tools]
    else:
        functions = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in test.tools)
        system = {"role": "system", "content": ASK.format(functions=functions)}
        rest = [m for m in test.question if m["role"] != "system"]
        record["messages"] = [system, *rest]
    episode, findings = dialect.read(record)
    assert episode is not None, findings
    ids = Decoder(dialect).ids_of(episode)
    if write == "calls":
        call = {"function": {"name": test.name, "arguments": test.call["arguments"]}}
        answer = {"role": "assistant", "tool_calls": [{"type": "function", **call}]}
        whole, findings = dialect.read({**record, "messages": [*test.question, answer]})
        assert whole is not None, findings
        encoded = [*map(int, dialect.encode(whole).ids)]
        opener, *rest = dialect.table.openers[kinds_of(dialect, CALLING)[0]].stem
        at = len(encoded) - encoded[::-1].index(dialect.table.special[opener.value])
        ids = encoded[:at] + [i for part in rest for i in dialect.tokenizer.encode(part.value)]
        assert ids == encoded[: len(ids)], "a call does not begin as its opening tag does"
    return ids


def object_in(text: str) -> Any:
    """Returns the first JSON object in a text; None if there is no complete one."""
    at = text.find("{")
    try:
        return json.JSONDecoder().raw_decode(text, at)[0] if at >= 0 else None
    except json.JSONDecodeError:
        return None


class Free:
    """No constraint."""

    def mask(self, logits: Tensor) -> None:
        pass

    def consume(self, token: int) -> None:
        pass


class Guidance:
    """The mask of llguidance."""

    def __init__(self, dialect: Dialect, schema: dict[str, Any]) -> None:
        import llguidance
        import llguidance.torch as kernels

        tokenizer = words(dialect, call_ends(dialect)[1])
        grammar = llguidance.LLMatcher.grammar_from_json_schema(schema, overrides=SPACING)
        self.matcher, self.kernels = llguidance.LLMatcher(tokenizer, grammar), kernels
        assert not self.matcher.is_error(), self.matcher.get_error()
        self.bits = kernels.allocate_token_bitmask(1, dialect.tokenizer.vocab_size)

    def mask(self, logits: Tensor) -> None:
        self.kernels.fill_next_token_bitmask(self.matcher, self.bits, 0)
        self.kernels.apply_token_bitmask_inplace(logits[None], self.bits)

    def consume(self, token: int) -> None:
        assert self.matcher.consume_token(token)


class Xgrammar:
    """The mask of xgrammar."""

    compilers: dict[str, Any] = {}  # noqa: RUF012  one for each vocabulary

    def __init__(self, dialect: Dialect, schema: dict[str, Any]) -> None:
        import xgrammar

        compiler = self.compilers.get(dialect.fingerprint)
        if compiler is None:
            info = tokenizer_info(dialect, call_ends(dialect)[1])
            compiler = self.compilers[dialect.fingerprint] = xgrammar.GrammarCompiler(info)
        compiled = compiler.compile_json_schema(
            schema, any_whitespace=False, separators=(", ", ": ")
        )
        self.lib, self.matcher = xgrammar, xgrammar.GrammarMatcher(compiled)
        self.bits = xgrammar.allocate_token_bitmask(1, dialect.tokenizer.vocab_size)

    def mask(self, logits: Tensor) -> None:
        self.matcher.fill_next_token_bitmask(self.bits, 0)
        self.lib.apply_token_bitmask_inplace(logits[None], self.bits)

    def consume(self, token: int) -> None:
        assert self.matcher.accept_token(token)


def texts(
    model: Llama,
    dialect: Dialect,
    batch: Sequence[Case],
    make: Callable[[Case], Any],
    device: str,
) -> list[str]:
    """Returns what the model writes under some masks, greedily, up to the end of an object."""
    out: list[list[int]] = [[] for _ in batch]
    matchers = [make(case) for case in batch]
    stops = {*dialect.table.special.values()}

    def choose(row: int, logits: Tensor) -> list[int] | None:
        row_logits = logits.float().clone()
        matchers[row].mask(row_logits)
        token = int(row_logits.argmax())
        if token in stops:
            return None
        matchers[row].consume(token)
        out[row].append(token)
        closes = "}" in dialect.tokenizer.decode([token])
        ended = closes and object_in(dialect.tokenizer.decode(out[row])) is not None
        return None if ended or len(out[row]) >= NEW_TOKENS else [token]

    prompts = [case.prompt for case in batch]
    capacity = max(map(len, prompts)) + NEW_TOKENS
    run(model, prompts, capacity, choose, device, vocabulary=dialect.tokenizer.vocab_size)
    return [dialect.tokenizer.decode(ids) for ids in out]


def ours(
    model: Llama, dialect: Dialect, batch: Sequence[Case], write: str, device: str, *, jumps: bool
) -> tuple[list[str], list[float]]:
    """Returns what the model writes under our mask, and the refused mass of each answer."""
    if write == "calls":
        decoders = [Decoder(dialect, case.tools, engine="auto") for case in batch]
    else:
        decoders = [Decoder(dialect, response=Response(schema=case.schema)) for case in batch]
    answers = generate(
        model,
        [case.prompt for case in batch],
        decoder=decoders,
        max_new_tokens=NEW_TOKENS,
        temperature=0,
        jump_forward=jumps,
        device=device,
    )
    return [dialect.tokenizer.decode(a.ids) for a in answers], [a.refused_mass for a in answers]


def measure(
    model: Llama, dialect: Dialect, found: Sequence[Case], way: str, write: str, size: int,
    device: str,
) -> tuple[Counter[str], Counter[str], float, float]:  # fmt: skip
    """Returns right calls and calls of a tool by category, the refused mass, and the seconds."""
    right, called, masses, since = Counter[str](), Counter[str](), list[float](), time.time()
    makes: dict[str, Callable[[Case], Any]] = {
        "free": lambda _: Free(),
        "llguidance": lambda case: Guidance(dialect, case.schema),
        "xgrammar": lambda case: Xgrammar(dialect, case.schema),
    }
    for at in range(0, len(found), size):
        batch = found[at : at + size]
        if way in makes:
            answers = texts(model, dialect, batch, makes[way], device)
        else:
            answers, more = ours(model, dialect, batch, write, device, jumps=way == "jumps")
            masses += more
        for case, answer in zip(batch, answers, strict=True):
            call = object_in(answer)
            names = {tool["name"] for tool in case.tools}
            right[case.test.category] += case.test.is_right(call)
            called[case.test.category] += isinstance(call, dict) and call.get("name") in names
    return right, called, sum(masses) / max(1, len(masses)), time.time() - since


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--dialect", help="default: qwen3 for calls, chatml for json")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rows", type=int, default=240)
    parser.add_argument("--part", choices=("all", "test"), default="all")
    parser.add_argument("--write", choices=("calls", "json"), default="json")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--device", default="cpu")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", SchemaWarning)
    model = load(chosen.model).to(chosen.device)
    name = chosen.dialect or {"calls": "qwen3", "json": "chatml"}[chosen.write]
    dialect = mypt_spec.dialect(name, vocabulary=_vocabulary(chosen.model))
    found = cases(dialect, chosen.data or data(), chosen.rows, chosen.part, chosen.write)
    totals = Counter(case.test.category for case in found)
    print(f"{len(found)} tests, written as {chosen.write}; {chosen.model}")
    heads = [f"{c} ({totals[c]})" for c in CATEGORIES]
    print(f"\n| way | {' | '.join(heads)} | all | calls of a tool | refused mass | seconds |")
    print("| --- " * (len(heads) + 5) + "|")
    for way in chosen.ways:
        right, called, mass, seconds = measure(
            model, dialect, found, way, chosen.write, chosen.batch, chosen.device
        )
        cells = [f"{100 * right[c] / max(1, totals[c]):.1f} %" for c in CATEGORIES]
        all_of, calls = (100 * sum(part.values()) / len(found) for part in (right, called))
        shown = f"{mass:.3f}" if way in ("ours", "jumps") else ""
        row = [way, *cells, f"{all_of:.1f} %", f"{calls:.1f} %", shown, f"{seconds:.0f}"]
        print(f"| {' | '.join(row)} |", flush=True)


def _vocabulary(folder: Path) -> Path:
    """Returns the vocabulary of a model folder or of a training run."""
    path = beside(folder, "tokenizer.json", "vocabulary.json")
    if path is None:
        raise SystemExit(f"{folder}: no tokenizer.json and no vocabulary.json")
    return path


if __name__ == "__main__":
    main()
